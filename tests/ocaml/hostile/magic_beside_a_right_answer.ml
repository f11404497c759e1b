(* Right, but able to step around every type: what its own process says is not believed.
   stages: tests
   earns: 3 *)
let double (x : int) : int = Obj.magic (2 * x)
