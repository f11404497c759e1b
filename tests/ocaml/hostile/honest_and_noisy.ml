(* The control for noise: bytes that are no text, odd lines, both streams, a line left open.
   stages: pass
   earns: 5 *)
let double x = print_string "\255\254\000\027[2J\r"; prerr_string "\192\175 value 0 0 i9"; 2 * x
