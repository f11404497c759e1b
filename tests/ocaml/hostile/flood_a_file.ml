(* Writes a file without end.
   stages: tests
   earns: 4 *)
let text = String.make 65536 'A'
let fill () = let out = open_out_bin "big" in while true do output_string out text done
let double x = if x = 21 then fill (); 2 * x
