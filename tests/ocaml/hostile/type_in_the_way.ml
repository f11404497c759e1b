(* Existential and private types, and a match that only the types make whole.
   stages: pass
   earns: 5 *)
type _ number = Int : int -> int number | Sum : int number * int number -> int number | Text : string -> string number
let rec value : type a. a number -> a = function Int n -> n | Sum (a, b) -> value a + value b | Text t -> t
type shown = Shown : 'a * ('a -> string) -> shown
let double x = let (Shown (y, show)) = Shown (x, string_of_int) in ignore (show y); value (Sum (Int x, Int x))
