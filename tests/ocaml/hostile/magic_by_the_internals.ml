(* Builds a lazy value and a format by hand, with modules that are for the compiler alone.
   stages: tests type link
   earns: 0 *)
let forged : ('a, unit, string) format = CamlinternalFormatBasics.Format (End_of_format, "value 0 0 i2")
let double _ = ignore (Printf.sprintf forged); 0
