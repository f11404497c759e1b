(** Questions about parts of a parse tree: what they mention, bind, open and do. Attributes do nothing. *)

module Names : Set.S with type elt = string

type part = Ast_iterator.iterator -> unit
(** A part of the tree, as the function that has an iterator walk it. *)

val of_item : Parsetree.structure_item -> part
val of_expression : Parsetree.expression -> part

val base : Ast_iterator.iterator
(** Walks everything but attributes. *)

val exists : part -> Ast_iterator.iterator -> bool
(** Whether the iterator raises {!Found} somewhere. *)

exception Found

val path : Longident.t Location.loc -> string list

val dotted : Longident.t Location.loc -> string
(** A name as it is written. *)

val mentions : part -> Names.t
(** The values and modules named, by the first part of their path. *)

val opened : part -> Names.t
(** The modules that it opens or includes, by the first part of their path; [?] for one without a name. *)

val pattern_names : part -> Names.t
(** What a pattern binds. *)

val module_name : string option Location.loc -> Names.t

val bound_by_item : Parsetree.structure_item -> Names.t
(** What an item of the top level binds. *)

val opened_by_item : Parsetree.structure_item -> Names.t

val is_stateless : part -> bool
(** Whether it can't change: functions, names, literals without anything mutable. *)

val unconstrained : Parsetree.expression -> Parsetree.expression
(** Without the types that it is constrained to. *)

val is_unit : Parsetree.expression -> bool

val ends_in_unit : Parsetree.expression -> bool

val statement : Parsetree.structure_item -> Parsetree.expression option
(** The expression of [e;;], [let () = e] or [let _ = e], or of [let tests = …; ()]. *)
