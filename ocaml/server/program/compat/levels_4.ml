(* OCaml 4: the levels of type inference stay where an exception left them. *)

let outermost = Ctype.save_levels ()
let reset () = Ctype.set_levels outermost; Typetexp.reset_type_variables ()
let warn_unused () = ()
