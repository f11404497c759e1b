(* OCaml 5.2 on: a function has all its parameters in one node. *)

let is_function : Parsetree.expression_desc -> bool = function
  | Pexp_function (_, _, _) | Pexp_newtype _ -> true
  | _ -> false
