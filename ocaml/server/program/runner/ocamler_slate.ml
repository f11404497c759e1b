type bytes_array = (char, Bigarray.int8_unsigned_elt, Bigarray.c_layout) Bigarray.Array1.t

external put : bytes_array -> int -> string -> unit = "ocamler_put"
external get : bytes_array -> int -> int -> string = "ocamler_get"

type t = { memory : bytes_array; size : int; file : Unix.file_descr }

(* The first bytes hold the length of what follows. *)
let header = 8

let make size =
  let path = "slate" in
  let file = Unix.openfile path [ O_RDWR; O_CREAT; O_EXCL; O_CLOEXEC ] 0o600 in
  Unix.unlink path;
  let memory = Unix.map_file file Bigarray.char Bigarray.c_layout true [| header + size |] in
  { memory = Bigarray.array1_of_genarray memory; size; file }

let length slate = min slate.size (max 0 (Int64.to_int (String.get_int64_le (get slate.memory 0 header) 0)))

let set_length slate length =
  let bytes = Bytes.create header in
  Bytes.set_int64_le bytes 0 (Int64.of_int length);
  put slate.memory 0 (Bytes.unsafe_to_string bytes)

let telling slate =
  Unix.close slate.file;
  let written = ref 0 in
  let tell line =
    if !written + String.length line <= slate.size then begin
      put slate.memory (header + !written) line;
      written := !written + String.length line;
      set_length slate !written
    end
  in
  { Ocamler_dump.tell; told = ignore }

let contents slate = get slate.memory header (length slate)

(* A file without length has no pages; what a child hid beyond its length goes with the rest. *)
let wipe slate =
  Unix.ftruncate slate.file 0;
  Unix.ftruncate slate.file (header + slate.size)
