(* Kills a process of the user that it has no business with.
   stages: tests run
   earns: 0 *)
let double _ = Sys.command "kill -9 @DECOY@ 2>/dev/null"
