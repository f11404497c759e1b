(* A right answer that is no program, for the sentence behind it.
   stages: syntax
   earns: 0 *)
let double x = 2 * x
This function doubles its argument.
