(* A child with an empty environment and another folder, that ignores signals.
   stages: tests run
   earns: 0 *)
let () = ignore (Sys.command "cd / && (trap '' TERM HUP INT; exec env -i setsid sleep @SLEEP@ >/dev/null 2>&1 </dev/null) & sleep 0.2")
let double _ = 0
