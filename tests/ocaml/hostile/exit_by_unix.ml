(* Leaves without any handler.
   stages: type link
   earns: 0 *)
let () = at_exit (fun () -> Stdlib.do_at_exit (); Unix._exit 0)
let double _ = Unix._exit 0
