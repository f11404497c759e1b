(* Right, but able to step around every type: what its own process says is not believed.
   stages: tests
   earns: 3 *)
external same : 'a -> 'a = "%identity"
let double x = same (2 * x)
