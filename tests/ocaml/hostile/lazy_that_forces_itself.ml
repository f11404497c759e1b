(* Returns something lazy that needs itself.
   problem: later
   stages: tests
   earns: 0 *)
let later (_ : int) : int Lazy.t = let rec again = lazy (Lazy.force again + 1) in again
