(* A type that was never settled.
   stages: type
   earns: 0 *)
let seen = ref []
let double x = ignore !seen; 2 * x
