(* Closes a structure that it is not in.
   stages: syntax
   earns: 0 *)
let double _ = 0 end;; let () = exit 0;; module Rest = struct
