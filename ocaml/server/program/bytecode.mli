(** From typed programs to bytecode that can be loaded. *)

type program
(** A translated unit, or several in the order in which they run. *)

val translate : unit_name:string -> Typedtree.structure * Typedtree.module_coercion -> program
(** Translates a unit; the compiler may still refuse it here. *)

val before : program -> program -> program
(** Both in one: the first has run when the second starts. *)

val lambda : program -> Lambda.lambda
(** Its code. *)

val with_lambda : program -> Lambda.lambda -> program
(** The same with other code. *)

type compiled = {
  bytes : string Lazy.t;  (** a .cmo file *)
  needs : string list;  (** units that it uses, outside the standard library and itself *)
  calls : string list;  (** primitives of the runtime that it calls *)
}

val compile : program -> compiled
(** Compiles to bytecode; the file bears the name of the last unit. *)
