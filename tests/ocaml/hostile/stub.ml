(* The stub of the right type.
   stages: tests
   earns: 0 *)
let double (_ : int) : int = failwith "todo"
