(* OCaml 4.14 on: typing a structure gives its shape too. *)

let type_structure env items =
  let structure, signature, _, _, env = Typemod.type_structure env items in
  (structure, signature, env)
