(** A writer of JSON. Strings are bytes: text in UTF-8 goes through as it is, any other byte comes out as
    the escape [\udcXX], so that Python reads what [bytes.decode(errors="surrogateescape")] gives. *)

type t =
  | Null
  | Bool of bool
  | Int of int
  | Float of float
  | String of string
  | List of t list
  | Object of (string * t) list

val write : Buffer.t -> t -> unit
(** Adds the value, on one line, to the buffer. *)

val to_string : t -> string
(** The value on one line. *)
