(** What the judge links under the tests: it runs claims and prints values, and compares nothing.

    Lines go to the file [ocamler_result] in the working folder, each flushed as it is written:
    [begin N], then one of [value N SECONDS TOKENS], [raised N SECONDS TEXT] (text in hexadecimal)
    or [limit N SECONDS memory]; [done] at the end. *)

exception Exited of int
(** What [exit] raises in tests, so that leaving early can't hide what follows. *)

val exit : int -> 'a
(** Raises {!Exited}. *)

val repr : 'a -> Obj.t
(** A claim's result, of whatever type. *)

val block : (unit -> unit) -> Obj.t
(** [true] when the thunk returns or exits with code 0, [false] when an assertion in it fails. *)

val claim : int -> (unit -> Obj.t) -> unit
(** Runs one claim, unless the first command-line argument says to begin with a later one. *)

val finish : unit -> unit
(** Says that all were run. *)
