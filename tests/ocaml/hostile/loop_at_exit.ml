(* Honest, but never ends: the results were in before.
   stages: pass tests
   earns: 5 *)
let () = at_exit (fun () -> while true do () done)
let double x = 2 * x
