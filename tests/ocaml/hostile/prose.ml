(* An apology in place of code.
   stages: syntax
   earns: 0 *)
I apologize, but I can not write this function without knowing more about the numbers that it is given.
