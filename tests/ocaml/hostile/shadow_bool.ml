(* A type bool in which true is another thing.
   stages: tests type
   earns: 0 *)
type bool = true | false
let double _ = 0
