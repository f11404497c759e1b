(* Never returns, and ignores what could tell it to.
   stages: tests
   earns: 4 *)
let deaf = [Sys.sigalrm; Sys.sigxcpu; Sys.sigterm; Sys.sigint; Sys.sigvtalrm; Sys.sigprof; Sys.sighup; Sys.sigpipe; Sys.sigquit; Sys.sigusr1; Sys.sigabrt; Sys.sigsegv]
let () = List.iter (fun s -> try Sys.set_signal s Sys.Signal_ignore with _ -> ()) deaf
let double x = if x = 21 then while true do () done; 2 * x
