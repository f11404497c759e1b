exception Closed

(* A frame is the length of all that follows, then each field with its length; lengths are 32 bits, big-endian. *)
let length_bytes = 4

let read channel =
  match input_binary_int channel with
  | exception End_of_file -> raise Closed
  | total ->
    let frame = try really_input_string channel total with End_of_file -> raise Closed in
    let rec fields at found =
      if at >= total then List.rev found
      else
        let length = Int32.to_int (String.get_int32_be frame at) in
        fields (at + length_bytes + length) (String.sub frame (at + length_bytes) length :: found)
    in
    fields 0 []

let write channel fields =
  let total = List.fold_left (fun sum field -> sum + length_bytes + String.length field) 0 fields in
  output_binary_int channel total;
  let write_field field =
    output_binary_int channel (String.length field);
    output_string channel field
  in
  (try List.iter write_field fields; flush channel with Sys_error _ -> raise Closed)
