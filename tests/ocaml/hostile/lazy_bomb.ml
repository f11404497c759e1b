(* Returns something lazy that never becomes anything.
   problem: later
   stages: tests
   earns: 0 *)
let later _ = let rec loop () = loop () in lazy (loop ())
