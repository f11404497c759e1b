(* A primitive that no runtime has.
   stages: link
   earns: 0 *)
external double : int -> int = "caml_double_the_number"
