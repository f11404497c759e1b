(* Raises an exception that carries functions and itself.
   stages: tests
   earns: 4 *)
type carried = { run : int -> int; mutable more : exn }
exception Carry of carried
let double x =
  if x = 21 then begin let c = { run = succ; more = Exit } in c.more <- Carry c; raise (Carry c) end;
  2 * x
