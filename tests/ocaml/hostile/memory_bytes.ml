(* Asks for more than there is, then for all there is.
   stages: tests
   earns: 4 *)
let kept = ref []
let fill () = (try ignore (Bytes.create Sys.max_string_length) with _ -> ()); while true do kept := Bytes.make 4_000_000 'x' :: !kept done
let double x = if x = 21 then fill (); 2 * x
