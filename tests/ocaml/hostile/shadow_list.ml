(* A library of lists that iterates over none.
   stages: tests
   earns: 0 *)
module List = struct
  let iter _ _ = ()
  let for_all _ _ = true
  let map _ _ = []
end
let double _ = 0
