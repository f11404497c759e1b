(** The warm type checker: it judges one program after another from the same initial environment, and
    undoes after each whatever the compiler's own state keeps of it. *)

type refusal =
  | Syntax
  | Type

type 'a checked = {
  result : ('a, refusal) result;
  reports : Json.t list;  (** warnings first, then what it was refused for *)
}

val judged : refusal -> (unit -> 'a) -> 'a checked
(** Runs a step of the compiler; what it complains of becomes reports. Whatever else it raises goes on. *)

val start : interfaces:string -> unit
(** Loads the standard library; [interfaces] is the folder of the harness. To be called once. *)

val reset : unit -> unit
(** Forgets all programs typed so far. *)

val parse : name:string -> string -> Parsetree.structure checked
(** Parses a source; [name] is the file name that places get. *)

type answer = { implementation : Typedtree.implementation; unit_name : string }

val implementation : source:string -> unit_name:string -> Parsetree.structure -> answer checked
(** Types a file as a unit of its own. *)

val finish : unit -> unit
(** What the compiler still complains of when it has translated a unit: unused attributes, and the warnings that
    are errors. *)

val signature : answer -> string
(** The inferred signature, as [ocamlc -i] prints it. *)

val phrases : Parsetree.structure -> Json.t list
(** Types the items one after another, going on behind those that are refused: the error of each. *)

val against : answer -> unit_name:string -> Parsetree.structure -> (Typedtree.structure * Types.signature) checked
(** Types a program that sees the answer as a module named as its unit is; its warnings are not reported. *)

val types_of : Types.signature -> (string * string) list
(** Each value of a signature with its type as text. *)
