(* Leaves a link to where the user has files, for whoever cleans up.
   stages: tests run
   earns: 0 *)
let () = ignore (Sys.command "ln -s @HOME@ link; mkdir locked; ln -s @HOME@ locked/link; ln -s @HOME@/precious.txt file; chmod 000 locked")
let double _ = 0
