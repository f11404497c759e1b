(* Returns a list longer than anyone would read.
   problem: kept
   stages: tests
   earns: 0 *)
let kept _ = List.init 2_000_000 Fun.id
