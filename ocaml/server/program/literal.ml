open Lambda

exception Computed

let hex text =
  let digits = Buffer.create (2 * String.length text) in
  String.iter (fun c -> Buffer.add_string digits (Printf.sprintf "%02x" (Char.code c))) text;
  Buffer.contents digits

let base = function
  | Asttypes.Const_int number -> Printf.sprintf "i%d" number
  | Const_char c -> Printf.sprintf "i%d" (Char.code c)
  | Const_float text -> Printf.sprintf "f%h" (float_of_string text)
  | Const_string (text, _, _) -> "s" ^ hex text
  | Const_int32 _ | Const_int64 _ | Const_nativeint _ -> raise Computed

(* A list is as deep as it is long: the blocks still open are kept in a list, not on the stack. *)
let tokens constant =
  let rec go found = function
    | [] -> String.concat " " (List.rev found)
    | Const_base value :: rest -> go (base value :: found) rest
    | Const_immstring text :: rest -> go (("s" ^ hex text) :: found) rest
    | Const_block (tag, fields) :: rest ->
      go (Printf.sprintf "b%d %d" tag (List.length fields) :: found) (List.rev_append (List.rev fields) rest)
    | _ :: _ -> raise Computed
  in
  go [] [ constant ]

(* Only what the harness itself is given is a claim; tests may have calls of that shape. *)
let rec of_harness = function
  | Lprim (Pfield _, [ inner ], _) -> of_harness inner
  | Lprim (Pgetglobal id, [], _) -> Ident.name id = "Ocamler_dump"
  | _ -> false

let claims program =
  let found = ref [] in
  let rec visit = function
    | Lapply { ap_func; ap_args = [ Lconst (Const_base (Const_int index)); Lfunction { body; _ } ]; _ }
      when of_harness ap_func ->
      (match body with
       | Lapply { ap_func; ap_args = [ Lconst value ]; _ } when of_harness ap_func -> found := (index, tokens value) :: !found
       | _ -> raise Computed)
    | code -> iter_head_constructor visit code
  in
  match visit program with
  | () -> Some !found
  | exception (Computed | Failure _) -> None

let without_rights program =
  let found = ref [] in
  let rec within claim = function
    | Lapply ({ ap_func; ap_args = [ Lconst (Const_base (Const_int index)) as first; (Lfunction _ as thunk) ]; _ } as apply)
      when of_harness ap_func ->
      Lapply { apply with ap_args = [ first; within (Some index) thunk ] }
    | Lprim (Pccall { prim_name = "ocamler_left"; _ }, [ left; right ], _) ->
      (match (claim, right) with
       | Some index, Lconst value -> found := (index, tokens value) :: !found
       | _ -> raise Computed);
      within claim left
    | code -> shallow_map (within claim) code
  in
  match within None program with
  | code -> Some (code, !found)
  | exception (Computed | Failure _) -> None
