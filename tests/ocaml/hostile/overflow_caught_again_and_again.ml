(* Runs out of stack for ever and hides it.
   stages: tests
   earns: 4 *)
let rec down n = 1 + down (n + 1)
let rec again () = (try ignore (down 0) with Stack_overflow -> ()); again ()
let double x = if x = 21 then again () else 2 * x
