(* Before Unit_info: a unit is told by its source file, its output prefix and its name. *)

let enter ~source:_ ~name = Env.set_unit_name name

let type_implementation ~source ~name env ast =
  Typemod.type_implementation source (Filename.remove_extension source) name env ast

let emit channel ~name ~path ~required_globals code = Emitcode.to_file channel name path ~required_globals code
