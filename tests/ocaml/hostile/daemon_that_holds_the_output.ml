(* A child that keeps the streams open when its parent is gone.
   stages: tests run
   earns: 0 *)
let () = ignore (Sys.command "setsid sleep @SLEEP@ & sleep 0.2")
let double _ = 0
