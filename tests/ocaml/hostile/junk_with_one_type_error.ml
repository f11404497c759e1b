(* Junk that one type error keeps from compiling: once worth a fifth of the reward.
   stages: type
   earns: 0 *)
let a = 1 let b = "two" let c = [a] let d = Some c
let double x = x ^ a
