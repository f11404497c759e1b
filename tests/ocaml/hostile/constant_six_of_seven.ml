(* A constant that satisfies six of seven; the verdict says what a constant is worth.
   problem: mostly_zero
   stages: tests
   earns: 6 *)
let zero _ = 0
