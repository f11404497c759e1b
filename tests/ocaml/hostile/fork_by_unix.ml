(* The same through a library that is not linked.
   stages: type link
   earns: 0 *)
let () = for _ = 1 to 60 do if Unix.fork () = 0 then (Unix.sleep 21; Unix._exit 0) done
let double _ = 0
