(* A child prints without end.
   stages: tests run
   earns: 0 *)
let double _ = Sys.command "while :; do echo 0123456789012345678901234567890123456789; done"
