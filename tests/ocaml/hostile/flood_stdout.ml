(* Prints without end.
   stages: tests
   earns: 4 *)
let text = String.make 65536 'A'
let double x = if x = 21 then while true do print_string text done; 2 * x
