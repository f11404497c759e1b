(** Tests as a list of claims, each of which can be run by itself: an [assert] becomes a claim with the
    [let] bindings and statements it stands under; everything else stays what it was. [ocaml/grading]
    has the same reader over the text of [ocamlc -dparsetree], and says what the claims are for. *)

module Names = Syntax.Names

type piece = {
  text : string;
  mentions : Names.t;
  binds : Names.t;
  acts : bool;  (** it does something when it is run *)
  stateless : bool;  (** what it binds can't change *)
  opens : Names.t;
}
(** A stretch of the source that comes before a claim: what it mentions, binds and opens. *)

type context
(** The pieces that a claim stands under. Claims that follow each other share what they have in common. *)

val pieces : context -> piece list
(** In their order. *)

type side = {
  text : string;
  mentions : Names.t;
  head : string option;  (** the function that it applies *)
}

type claim = {
  text : string;  (** to be shown, on one line *)
  condition : string;
  context : context;
  sides : (side * side) option;  (** when it is an equation *)
  block : bool;  (** it holds when it ends without an exception *)
  mentions : Names.t;
}

type step =
  | Piece of piece
  | Claim of claim

type t = {
  steps : step list;
  mentions : Names.t;
}

val read : source:string -> standard_modules:(string -> bool) -> whole:bool -> Parsetree.structure -> t
(** The claims of a test source. With [whole] no item is taken apart: one that asserts is one claim. *)

val to_json : t -> Json.t
(** The table ["pieces"] holds what claims stand under, each piece with the place in the table of the one
    before it (["after"]); the ["context"] of a claim is the place of its last. *)
