(* A right result in another form.
   stages: type
   earns: 0 *)
let double x = string_of_int (2 * x)
