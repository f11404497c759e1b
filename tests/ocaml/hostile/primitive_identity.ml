(* A primitive that returns what it is given.
   stages: tests
   earns: 0 *)
external double : int -> int = "%identity"
