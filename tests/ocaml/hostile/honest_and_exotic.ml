(* The control for what looks odd and is allowed: functors, first-class and recursive modules, objects, an
   existential, a warning switched off, attributes, an open structure, exceptions of the same names.
   stages: pass
   earns: 5 *)
[@@@ocaml.warning "-a"]
module type Number = sig type t val plus : t -> t -> t end
module Twice (N : Number) = struct let apply x = N.plus x x end
module rec Even : sig val test : int -> bool end = struct let test n = n = 0 || Odd.test (abs n - 1) end
and Odd : sig val test : int -> bool end = struct let test n = n <> 0 && Even.test (abs n - 1) end
type packed = Packed : 'a * ('a -> int) -> packed
exception Not_found
exception Stack_overflow
open struct let half = 1 end
let number = (module struct type t = int let plus = ( + ) end : Number with type t = int)
class counter = object val mutable n = 0 method add k = n <- n + k method n = n end
let double x =
  let (module N : Number with type t = int) = number in
  let module T = Twice (N) in
  let c = new counter in
  c#add (T.apply x);
  let (Packed (value, read)) = Packed (c#n, fun n -> n * half) in
  ignore (Even.test 4);
  read value [@inlined never]
