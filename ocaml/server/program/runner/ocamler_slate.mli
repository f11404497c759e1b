(** Memory that the runner and its children share: a child writes down what its claims did, and the runner
    reads it when the child has ended, however it ended. *)

type t

val make : int -> t
(** Memory for so many bytes, in a file of the working folder that is gone at once. *)

val telling : t -> Ocamler_dump.telling
(** For a child: writes lines while there is room for them. The child can no longer {!wipe}. *)

val length : t -> int
(** How many bytes were written. *)

val contents : t -> string
(** What was written; at most what there is room for, whatever a child made of the memory. *)

val wipe : t -> unit
(** Makes it empty, so that no child sees what another wrote. *)
