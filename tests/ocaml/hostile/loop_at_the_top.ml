(* Never gets to be tested.
   stages: run
   earns: 0 *)
let () = while true do () done
let double x = 2 * x
