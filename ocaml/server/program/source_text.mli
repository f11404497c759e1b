(** Slices of OCaml source, as text. *)

val without_brackets : string -> string
(** Takes off what may stand before a [let]: parentheses, [begin], comments. *)

val bare : string -> string
(** Takes one pair of parentheses off when it wraps the whole text. *)

val is_word : char -> bool
(** Whether a name may hold the character, a quote apart. *)
