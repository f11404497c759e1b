(* OCaml 5.3 on: a unit is a Unit_info.t. *)

let unit_of source = Unit_info.make ~check_modname:false ~source_file:source Unit_info.Impl (Filename.remove_extension source)

let enter ~source ~name:_ = Env.set_current_unit (unit_of source)
let type_implementation ~source ~name:_ env ast = Typemod.type_implementation (unit_of source) env ast

let emit channel ~name:_ ~path ~required_globals code =
  let artifact = Unit_info.cmo (unit_of path) in
  Emitcode.to_file channel artifact ~required_globals code
