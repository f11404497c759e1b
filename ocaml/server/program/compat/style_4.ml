(* Before OCaml 5.1: code is set off by colours at most. *)

let prepare (_ : Format.formatter) = ()
