(* Types and constructors under the names of the built-in ones.
   stages: tests type
   earns: 0 *)
type unit = ()
type 'a list = [] | ( :: ) of 'a * 'a list
type 'a option = None | Some of 'a
type exn = ..
let double _ = 0
