(* Right now and then.
   stages: pass tests
   earns: 0-5 *)
let () = Random.self_init ()
let double x = if Random.bool () then 2 * x else int_of_float (Sys.time () *. 1e6)
