(* Goes on until it is cut.
   stages: syntax
   earns: 0 *)
let double x =
  let y = x + x in
  let y = x + x in
  let y = x + x in
  let y = x + x in
  let y = x + x in
  let y = x +
