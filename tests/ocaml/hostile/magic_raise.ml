(* Raises what is no exception.
   stages: tests
   earns: 0 *)
let double _ = raise (Obj.magic 0)
