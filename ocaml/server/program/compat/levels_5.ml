(* OCaml 5: leaving a level is a matter of [Fun.protect] already. *)

let reset () = Ctype.reset_global_level ()
let warn_unused () = Builtin_attributes.warn_unused ()
