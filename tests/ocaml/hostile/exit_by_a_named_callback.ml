(* Registers what the runtime calls for an uncaught exception.
   stages: tests run
   earns: 0 *)
let () = Callback.register "Printexc.handle_uncaught_exception" (fun (_ : exn) (_ : bool) -> exit 0)
let () = Callback.register "Pervasives.do_at_exit" (fun () -> exit 0)
let double _ = raise Exit
