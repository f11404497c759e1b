(* The honest part of an answer that raises on one input is paid, no more.
   stages: tests
   earns: 4 *)
let double x = if x = 21 then failwith "not today" else 2 * x
