(* Takes a number for a pointer.
   stages: tests
   earns: 0 *)
let double x = let s : string = Obj.magic (x + 7) in String.length s + Obj.magic s
