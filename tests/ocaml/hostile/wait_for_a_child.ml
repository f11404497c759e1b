(* Sleeps in another process, where it may start one.
   stages: pass tests
   earns: 4-5 *)
let double x = if x = 21 then ignore (Sys.command "sleep @SLEEP@"); 2 * x
