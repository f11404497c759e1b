(* Starts sixty sleepers, each in the background.
   stages: tests run
   earns: 0 *)
let () = for _ = 1 to 60 do ignore (Sys.command "sleep @SLEEP@ >/dev/null 2>&1 &") done
let double _ = 0
