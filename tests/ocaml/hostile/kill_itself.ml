(* Kills its own process from another.
   stages: tests run
   earns: 0 *)
let double _ = Sys.command "kill -9 $PPID"
