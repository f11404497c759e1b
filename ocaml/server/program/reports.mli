(** What the compiler complains of, as data: each error, warning and alert with its place, its words and
    the places that explain it. *)

val collecting : (unit -> 'a) -> 'a * Json.t list
(** Runs the function with warnings and alerts going to the list, in the order in which they came. *)

val of_exception : exn -> Json.t option
(** The report of an exception of the compiler's; [None] for one that is no complaint about the source. *)
