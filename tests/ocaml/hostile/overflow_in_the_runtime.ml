(* Runs out of stack, or of time, in a comparison and a hash of what has no end.
   stages: tests
   earns: 4 *)
let rec ring = 1 :: ring
let double x = if x = 21 then (if compare (List.hd ring :: ring) ring = 0 then Hashtbl.hash ring else 0) else 2 * x
