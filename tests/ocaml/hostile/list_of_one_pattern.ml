(* Types of its own that look like lists.
   problem: kept
   stages: type
   earns: 0 *)
type 'a list = [] | ( :: ) of 'a * 'a list
let rec kept = function [] -> [] | x :: rest -> x :: kept rest
