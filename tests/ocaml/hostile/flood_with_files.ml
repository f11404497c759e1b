(* Makes many files and deep folders, some of which nobody may enter.
   stages: pass tests
   earns: 5 *)
let () =
  for n = 1 to 100 do try close_out (open_out (string_of_int n)) with Sys_error _ -> () done;
  let rec down n = if n > 0 then (Sys.mkdir "a_folder_with_a_long_name" 0o700; Sys.chdir "a_folder_with_a_long_name"; down (n - 1)) in
  (try down 40 with Sys_error _ -> ());
  ignore (Sys.command "mkdir locked 2>/dev/null && touch locked/file && chmod 000 locked")
let double x = 2 * x
