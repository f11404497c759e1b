(* Objects and closures where numbers are compared.
   stages: tests
   earns: 0 *)
let equal = object method equal _ = true end
let compare a b = if equal#equal a && equal#equal b then 0 else 1
let ( = ) a b = compare a b == 0
let double _ = if (equal :> < >) = equal then 0 else 1
