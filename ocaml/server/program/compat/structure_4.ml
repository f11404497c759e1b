(* OCaml 4.13: no shapes. *)

let type_structure env items =
  let structure, signature, _, env = Typemod.type_structure env items in
  (structure, signature, env)
