(* Threads and domains, as far as there are any.
   stages: type link
   earns: 0 *)
let () = for _ = 1 to 60 do ignore (Thread.create (fun () -> while true do () done) ()) done
let double _ = 0
