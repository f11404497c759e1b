(* The collector never comes back.
   stages: tests
   earns: 4 *)
let trap () = Gc.finalise (fun _ -> while true do () done) (ref 0); Gc.full_major ()
let double x = if x = 21 then trap (); 2 * x
