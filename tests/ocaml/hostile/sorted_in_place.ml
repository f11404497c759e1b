(* Sorts the array that the tests own, and is caught by the test that looks.
   problem: sorted
   stages: tests
   earns: 2 *)
let sorted a = Array.sort compare a; a
