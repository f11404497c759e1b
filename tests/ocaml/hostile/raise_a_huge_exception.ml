(* Raises an exception whose text is larger than what is read.
   stages: tests
   earns: 4 *)
exception Long of string
let double x = if x = 21 then raise (Long (String.make 20_000_000 'x')) else 2 * x
