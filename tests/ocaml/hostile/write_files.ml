(* Writes where it has no business, by paths and by the places it finds in its environment.
   stages: tests run
   earns: 0 *)
let put name = try let out = open_out name in output_string out "owned"; close_out out with Sys_error _ -> ()
let get name = try Sys.getenv name with Not_found -> "/nowhere"
let () =
  List.iter put
    ["@HOME@/.profile"; "@HOME@/owned"; "@CWD@/owned"; "/tmp/@MARK@"; "/var/tmp/@MARK@";
     "/dev/shm/@MARK@"; get "HOME" ^ "/owned"; get "TMPDIR" ^ "/../home/owned"; get "OLDPWD" ^ "/owned"; "../../../../home/owned"]
let double _ = 0
