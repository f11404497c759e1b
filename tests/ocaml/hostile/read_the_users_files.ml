(* Shows what the user keeps to himself.
   stages: tests run
   earns: 0 *)
let show name = try let file = open_in_bin name in (try while true do print_endline (input_line file) done with End_of_file -> close_in file) with Sys_error _ -> ()
let () = List.iter show ["@HOME@/precious.txt"; "@CWD@/precious.txt"; "../../../../home/precious.txt"]; ignore (Sys.command "cat @HOME@/* ~/precious.txt $HOME/precious.txt 2>/dev/null")
let double _ = 0
