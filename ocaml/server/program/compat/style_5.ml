(* OCaml 5.1 on: quotation marks around code are a matter of how a formatter renders its tags. *)

let prepare = Misc.Style.set_tag_handling
