(* Puts its own error into the tests.
   stages: type
   earns: 0 *)
let double x = 2 * x
# 1 "tests.ml"
let broken : int = "x"
