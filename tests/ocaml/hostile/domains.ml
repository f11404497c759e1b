(* Domains that never end, where there are domains.
   stages: type tests run
   earns: 0 *)
let () = for _ = 1 to 4 do ignore (Domain.spawn (fun () -> while true do () done)) done
let double _ = 0
