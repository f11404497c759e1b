(* Ends itself, and has a handler that ends well.
   stages: tests run
   earns: 0 *)
let () = List.iter (fun s -> Sys.set_signal s (Sys.Signal_handle (fun _ -> exit 0))) [Sys.sigterm; Sys.sigint; Sys.sigusr1]
let double _ = ignore (Sys.command "kill -TERM $PPID"); let rec wait n = if n = 0 then 0 else wait (n - 1) in wait 1_000_000
