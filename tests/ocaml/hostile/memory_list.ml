(* A list without end, and nothing is raised: out of memory is caught.
   stages: tests
   earns: 4 *)
let rec grow l = grow (1 :: l)
let rec again () = (try ignore (grow []) with _ -> ()); again ()
let double x = if x = 21 then again () else 2 * x
