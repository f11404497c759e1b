(* Returns a sequence that never ends.
   problem: upto
   stages: tests
   earns: 0 *)
let upto _ = let rec from n () = Seq.Cons (n, from (n + 1)) in from 0
