(* The same with a type that has one value only.
   stages: type
   earns: 0 *)
type int = Same
let double (_ : int) : int = Same
