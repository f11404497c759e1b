(* Asks for a preprocessor that is not there.
   stages: type
   earns: 0 *)
let%test "two" = true
let double x = [%double x]
[@@@ocaml.ppx.context { tool_name = "ocamlc" }]
