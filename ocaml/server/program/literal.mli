(** What a program's claims compute, where nothing has to be run to know it. *)

val claims : Lambda.lambda -> (int * string) list option
(** The claims of a program of expected values, each with its value in the tokens of the harness
    ([ocamler_dump.ml]); [None] when one of them is more than a constant. *)

val without_rights : Lambda.lambda -> (Lambda.lambda * (int * string) list) option
(** Takes the right sides out of a program whose claims have both sides of their equations (the harness's
    [left]); they are told as by {!claims}. [None] when one of them is more than a constant. *)
