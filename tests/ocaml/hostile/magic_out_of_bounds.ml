(* Writes and reads where no array is.
   stages: tests run
   earns: 0 *)
let double _ =
  let a = Array.make 1 0 in
  for i = 1 to 100_000_000 do Array.unsafe_set a i 7 done;
  Array.unsafe_get a (-1)
