(* Runs out of stack.
   stages: tests
   earns: 4 *)
let rec down n = 1 + down (n + 1)
let double x = if x = 21 then down 0 else 2 * x
