(* Attributes that some preprocessor would heed: nobody does.
   stages: tests
   earns: 0 *)
[@@@ocaml.flambda_o3] [@@@ocaml.alert "-all"] [@@@ocaml.warnerror "-a"]
[@@@ppx.skip_tests] [@@@coverage off]
let double _ = 0 [@@deriving show, eq] [@@test.skip] [@@ocaml.deprecated "never call it"]
