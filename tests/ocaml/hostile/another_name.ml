(* A right function that nobody asked for.
   stages: type
   earns: 0 *)
let doubled x = 2 * x
