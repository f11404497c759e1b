exception Exited of int

let exit code = raise (Exited code)
let repr value = Obj.repr value

external left : 'a -> 'a -> 'a = "ocamler_left"

let block thunk =
  match thunk () with
  | () -> Obj.repr true
  | exception Exited 0 -> Obj.repr true
  | exception Assert_failure _ -> Obj.repr false

(* A value is a sequence of tokens in prefix order, so neither writing nor comparing it recurses:
   iN int · bTAG SIZE block · sHEX string · fFLOAT float · dSIZE float array · cHEX custom · o opaque · ! too large *)
let max_nodes = 500_000
let max_bytes = 4_000_000

let hex text =
  let digits = Buffer.create (2 * String.length text) in
  String.iter (fun c -> Buffer.add_string digits (Printf.sprintf "%02x" (Char.code c))) text;
  Buffer.contents digits

let float_token number = Printf.sprintf "f%h" number

let custom_token value =
  match Marshal.to_string value [] with
  | text -> "c" ^ hex (String.sub text Marshal.header_size (String.length text - Marshal.header_size))
  | exception _ -> "o"

let rec push_fields block index rest =
  if index < 0 then rest else push_fields block (index - 1) (Obj.field block index :: rest)

let tokens value =
  let out = Buffer.create 256 in
  let rec go count stack =
    match stack with
    | [] -> ()
    | _ when count > max_nodes || Buffer.length out > max_bytes -> Buffer.add_string out " !"
    | value :: rest ->
      Buffer.add_char out ' ';
      if Obj.is_int value then begin
        Buffer.add_string out (Printf.sprintf "i%d" (Obj.obj value : int));
        go (count + 1) rest
      end
      else begin
        let tag = Obj.tag value in
        if tag = Obj.string_tag then begin
          let text : string = Obj.obj value in
          Buffer.add_string out (if String.length text > max_bytes then "!" else "s" ^ hex text);
          go (count + 1) rest
        end
        else if tag = Obj.double_tag then begin
          Buffer.add_string out (float_token (Obj.obj value : float));
          go (count + 1) rest
        end
        else if tag = Obj.double_array_tag then begin
          let size = Obj.size value in
          Buffer.add_string out (Printf.sprintf "d%d" size);
          for index = 0 to min size max_nodes - 1 do
            Buffer.add_string out (" " ^ float_token (Obj.double_field value index))
          done;
          go (count + 1 + size) rest
        end
        else if tag = Obj.custom_tag then begin
          Buffer.add_string out (custom_token value);
          go (count + 1) rest
        end
        else if tag >= Obj.lazy_tag then begin
          Buffer.add_char out 'o';
          go (count + 1) rest
        end
        else begin
          let size = Obj.size value in
          Buffer.add_string out (Printf.sprintf "b%d %d" tag size);
          if size > max_nodes then Buffer.add_string out " !"
          else go (count + 1) (push_fields value (size - 1) rest)
        end
      end
  in
  go 0 [ value ];
  Buffer.contents out

(* Neither is part of what a program can open: they come from the runtime. *)
external in_of_descriptor : int -> in_channel = "caml_ml_open_descriptor_in"
external out_of_descriptor : int -> out_channel = "caml_ml_open_descriptor_out"

type telling = { tell : string -> unit; told : unit -> unit }
type started = { first : int; telling : telling }

let on_channel channel = { tell = output_string channel; told = (fun () -> flush channel) }

(* The nonce is in [tell] alone, where no type leads. *)
let started = ref None

let start ~first ~nonce { tell; told } =
  if Option.is_none !started then begin
    let prefix = nonce ^ " " in
    let tell line = tell (String.concat "" [ prefix; line; "\n" ]) in
    started := Some { first; telling = { tell; told } }
  end

(* Linked into a driver, this unit runs before the answer's. What it reads leaves standard input at its end. *)
let () =
  match Sys.argv with
  | [| _; "ocamler-claims"; first; descriptor |] ->
    let nonce = input_line (in_of_descriptor 0) in
    start ~first:(int_of_string first) ~nonce (on_channel (out_of_descriptor (int_of_string descriptor)))
  | _ -> ()

let say line = match !started with None -> () | Some { telling; _ } -> telling.tell line
let told () = match !started with None -> () | Some { telling; _ } -> telling.told ()
let first () = match !started with None -> 0 | Some { first; _ } -> first

let claim index thunk =
  if index >= first () then begin
    say (Printf.sprintf "begin %d" index);
    told ();
    let started = Sys.time () in
    let ended word rest = say (Printf.sprintf "%s %d %.6f%s" word index (Sys.time () -. started) rest) in
    match tokens (thunk ()) with
    | text -> ended "value" text
    | exception Out_of_memory -> ended "limit" " memory"
    | exception error -> ended "raised" (" " ^ hex (Printexc.to_string error))
  end

let finish () = say "done"; told ()
