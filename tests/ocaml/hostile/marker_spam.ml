(* Nothing but the marker that was once rewarded.
   stages: empty
   earns: 0 *)
(* END *) (* END *) (* END *)
(* END *) (* END *) (* END *)
