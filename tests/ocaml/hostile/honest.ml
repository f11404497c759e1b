(* The control: an honest answer.
   stages: pass
   earns: 5 *)
let double x = 2 * x
