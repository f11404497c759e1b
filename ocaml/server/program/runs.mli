(** The runner at work: a process beside the server that forks a child for each program. *)

type t

val start : string -> string list -> t
(** Starts the runner, given its executable and arguments. It ends with the server. *)

val perform : t -> string list -> string list
(** Runs a job: a program's bytecode, then the other fields of the runner's [job]; returns the fields of its
    reply. Raises {!Ocamler_wire.Closed} when the runner is gone. *)
