(** Frames on a pipe: a list of byte strings, each with its length before it. *)

exception Closed
(** The other end is gone. *)

val read : in_channel -> string list
(** The next frame. Raises {!Closed} at the end of input. *)

val write : out_channel -> string list -> unit
(** Writes one frame and flushes. *)
