(* Fills the memory of another process.
   stages: tests run
   earns: 0 *)
let double _ = Sys.command "x=0123456789; while :; do x=$x$x; done"
