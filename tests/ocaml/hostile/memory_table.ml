(* A table without end before anything is tested.
   stages: run
   earns: 0 *)
let () = let t = Hashtbl.create 1 in let n = ref 0 in while true do incr n; Hashtbl.add t !n (Array.make 500 !n) done
let double x = 2 * x
