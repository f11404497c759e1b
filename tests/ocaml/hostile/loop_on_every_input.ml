(* Never returns.
   stages: tests
   earns: 0 *)
let double _ = while true do () done; 0
