(* Returns a list that ends in itself.
   problem: kept
   stages: tests
   earns: 0 *)
let kept _ = let rec ring = 1 :: ring in ring
