(* Places that are nowhere do not make an honest answer wrong.
   stages: pass
   earns: 5 *)
# 1 "/etc/shadow"
let double x = 2 * x
# 999999999 ""
