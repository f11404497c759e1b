(* Never returns, whatever is raised in it.
   stages: tests
   earns: 4 *)
let rec again () = (try while true do ignore (Sys.opaque_identity (ref 0)) done with _ -> ()); again ()
let double x = if x = 21 then again () else 2 * x
