(* A child in a session of its own, and another in a session of its own below it.
   stages: tests run
   earns: 0 *)
let () = ignore (Sys.command "(setsid sh -c '(setsid sleep @SLEEP@ &) & sleep @SLEEP@' >/dev/null 2>&1 &); sleep 0.2")
let double _ = 0
