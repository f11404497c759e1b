(* A child in a session of its own that leaves a sign of life when its parent is gone.
   stages: tests run
   earns: 0 *)
let () = ignore (Sys.command "(setsid sh -c 'sleep 0.3; echo alive > @HOME@/survivor; sleep @SLEEP@' >/dev/null 2>&1 &); sleep 0.2")
let double _ = 0
