(** What the judge links under the tests: it runs claims and prints values, and compares nothing.

    It tells, on a channel that no one else is given, lines that begin with a nonce that no one else knows:
    [NONCE begin N], then one of [NONCE value N SECONDS TOKENS], [NONCE raised N SECONDS TEXT] (text in
    hexadecimal) or [NONCE limit N SECONDS memory]; [NONCE done] at the end. They are written out when
    a claim begins and at the end, which spares half of the writing.

    An answer can reach the channel and the nonce only outside of the type system (by [external] and [Obj]):
    of such an answer nothing is believed that is decided in its process. *)

exception Exited of int
(** What [exit] raises in tests, so that leaving early can't hide what follows. *)

val exit : int -> 'a
(** Raises {!Exited}. *)

val repr : 'a -> Obj.t
(** A claim's result, of whatever type. *)

val block : (unit -> unit) -> Obj.t
(** [true] when the thunk returns or exits with code 0, [false] when an assertion in it fails. *)

external left : 'a -> 'a -> 'a = "ocamler_left"
(** The left side of an equation, beside the right one for its type. There is no such primitive: the check
    server takes the right side out, and a program in which it stayed does not link. *)

type telling = {
  tell : string -> unit;  (** takes a line *)
  told : unit -> unit;  (** sees to it that all lines can be read by others *)
}

val on_channel : out_channel -> telling

val start : first:int -> nonce:string -> telling -> unit
(** Says how to tell, with which nonce, and which claim is the first to run. Only the first call counts.

    A program whose arguments are [ocamler-claims FIRST DESCRIPTOR] starts by itself, before any unit that is
    linked behind this one: it reads the nonce from standard input, all of which that is. *)

val claim : int -> (unit -> Obj.t) -> unit
(** Runs one claim, unless a later one is the first to run. *)

val told : unit -> unit
(** Writes out what was told: for when something other than a claim runs next. *)

val finish : unit -> unit
(** Says that all were run. *)
