(* Shows what the kernel tells of the processes above it: their folder, environment and arguments.
   stages: tests run
   earns: 0 *)
let () = ignore (Sys.command "cat /proc/@PID@/environ /proc/@PID@/cwd/precious.txt /proc/@PID@/root@HOME@/precious.txt 2>/dev/null | tr '\\0' '\\n'")
let double _ = 0
