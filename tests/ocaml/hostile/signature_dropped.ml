(* The body without its function.
   stages: type
   earns: 0 *)
2 * x
