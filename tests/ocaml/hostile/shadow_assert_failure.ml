(* An own exception for failed assertions, and a function that looks like assert.
   stages: tests
   earns: 0 *)
exception Assert_failure of (string * int * int)
let assert_ _ = ()
let double _ = raise (Assert_failure ("", 0, 0))
