type t =
  | Null
  | Bool of bool
  | Int of int
  | Float of float
  | String of string
  | List of t list
  | Object of (string * t) list

let rec write buffer = function
  | Null -> Buffer.add_string buffer "null"
  | Bool value -> Buffer.add_string buffer (string_of_bool value)
  | Int value -> Buffer.add_string buffer (string_of_int value)
  | Float value -> Buffer.add_string buffer (float_text value)
  | String text -> write_string buffer text
  | List values -> write_all buffer '[' ']' write values
  | Object fields -> write_all buffer '{' '}' write_field fields

and write_field buffer (name, value) =
  write_string buffer name;
  Buffer.add_char buffer ':';
  write buffer value

and write_all : 'a. Buffer.t -> char -> char -> (Buffer.t -> 'a -> unit) -> 'a list -> unit =
 fun buffer opening closing write_one values ->
  Buffer.add_char buffer opening;
  List.iteri
    (fun index value ->
      if index > 0 then Buffer.add_char buffer ',';
      write_one buffer value)
    values;
  Buffer.add_char buffer closing

(* The words for what is no number are those that Python's reader knows. *)
and float_text value =
  if Float.is_nan value then "NaN"
  else if Float.is_integer value && Float.abs value < 1e15 then Printf.sprintf "%.1f" value
  else if Float.abs value = infinity then if value > 0. then "Infinity" else "-Infinity"
  else
    let short = Printf.sprintf "%.15g" value in
    if float_of_string short = value then short else Printf.sprintf "%.17g" value

and write_string buffer text =
  Buffer.add_char buffer '"';
  let length = String.length text in
  let rec go index =
    if index < length then
      match text.[index] with
      | ('"' | '\\') as special ->
        Buffer.add_char buffer '\\';
        Buffer.add_char buffer special;
        go (index + 1)
      | '\000' .. '\031' as control ->
        Printf.bprintf buffer "\\u%04x" (Char.code control);
        go (index + 1)
      | '\032' .. '\127' as plain ->
        Buffer.add_char buffer plain;
        go (index + 1)
      | byte ->
        let size = sequence_size text index in
        if size = 0 then Printf.bprintf buffer "\\udc%02x" (Char.code byte)
        else Buffer.add_substring buffer text index size;
        go (index + max size 1)
  in
  go 0;
  Buffer.add_char buffer '"'

(* How long the UTF-8 sequence at [index] is; 0 where there is none: no overlong forms, no surrogates. *)
and sequence_size text index =
  let byte offset =
    if index + offset < String.length text then Char.code text.[index + offset] else 0
  in
  let rec continued offset size =
    offset >= size || (byte offset land 0xC0 = 0x80 && continued (offset + 1) size)
  in
  let second low high size = if byte 1 >= low && byte 1 <= high && continued 2 size then size else 0 in
  match text.[index] with
  | '\xC2' .. '\xDF' -> second 0x80 0xBF 2
  | '\xE0' -> second 0xA0 0xBF 3
  | '\xED' -> second 0x80 0x9F 3
  | '\xE1' .. '\xEF' -> second 0x80 0xBF 3
  | '\xF0' -> second 0x90 0xBF 4
  | '\xF1' .. '\xF3' -> second 0x80 0xBF 4
  | '\xF4' -> second 0x80 0x8F 4
  | _ -> 0

let to_string value =
  let buffer = Buffer.create 256 in
  write buffer value;
  Buffer.contents buffer
