(* A string in place of the number.
   stages: tests
   earns: 0 *)
let double : int -> int = fun _ -> Obj.magic "2"
