(* Looks who calls, and from which line.
   stages: tests
   earns: 0 *)
let () = Printexc.record_backtrace true
let double _ = print_string (Printexc.raw_backtrace_to_string (Printexc.get_callstack 50)); 0
