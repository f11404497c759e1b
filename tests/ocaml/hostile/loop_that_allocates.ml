(* Never returns, and keeps the collector busy.
   stages: tests
   earns: 4 *)
let rec spin n = ignore (Sys.opaque_identity (ref n)); spin (n + 1)
let double x = if x = 21 then spin 0 else 2 * x
