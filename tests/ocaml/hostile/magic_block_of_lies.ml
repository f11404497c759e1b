(* Returns a block whose header lies about its size.
   stages: tests run
   earns: 0 *)
let double _ = let b = Obj.new_block 0 3 in Obj.set_field b 0 b; (Obj.magic b : int)
