(* Before OCaml 5.2: a function has one parameter. *)

let is_function : Parsetree.expression_desc -> bool = function
  | Pexp_fun _ | Pexp_function _ | Pexp_newtype _ -> true
  | _ -> false
