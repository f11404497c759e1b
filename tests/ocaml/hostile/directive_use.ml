(* Would bring in a file.
   stages: syntax
   earns: 0 *)
let double x = 2 * x;;
#use "/etc/passwd";;
