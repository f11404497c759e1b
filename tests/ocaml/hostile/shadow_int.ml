(* A type int that is another thing: the type asked for is met in name only.
   stages: type
   earns: 0 *)
type int = float
let double (x : int) : int = x *. 2.
