(* A primitive that takes its argument for a pointer.
   stages: tests run
   earns: 0 *)
external double : int -> int = "caml_ml_string_length"
