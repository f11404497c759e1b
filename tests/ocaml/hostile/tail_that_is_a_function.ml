(* Right in its values, but returns functions where numbers were asked for.
   problem: kept
   stages: type
   earns: 0 *)
let kept l = List.map (fun x () -> x) l
