(* Prints without end before it is tested.
   stages: run
   earns: 0 *)
let text = String.make 65536 '\255'
let () = while true do prerr_string text done
let double x = 2 * x
