(* Would load code, and look for it elsewhere.
   stages: syntax
   earns: 0 *)
#directory "/tmp";;
#load "unix.cma";;
let double x = 2 * x
