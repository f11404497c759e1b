open Parsetree
module Names = Set.Make (String)

type piece = {
  text : string;
  mentions : Names.t;
  binds : Names.t;
  acts : bool;
  stateless : bool;
  opens : Names.t;
}

(* What holds of all pieces is kept at the last one: contexts may be long. *)
type context =
  | Top
  | Under of { before : context; piece : piece; place : int; any_acts : bool; plain : bool }

type side = {
  text : string;
  mentions : Names.t;
  head : string option;
}

type claim = {
  text : string;
  condition : string;
  context : context;
  sides : (side * side) option;
  block : bool;
  mentions : Names.t;
}

type step =
  | Piece of piece
  | Claim of claim

type t = {
  steps : step list;
  mentions : Names.t;
}

let pieces context =
  let rec collect found = function
    | Top -> found
    | Under { before; piece; _ } -> collect (piece :: found) before
  in
  collect [] context

(* -- what stands below a node ------------------------------------------------------------------------ *)

(* Attributes do nothing: no walk goes into them. *)
let base =
  let nothing _ _ = () in
  { Ast_iterator.default_iterator with attribute = nothing; attributes = nothing; location = nothing }

(* A part of the tree, as the function that has an iterator walk it. *)
type part = Ast_iterator.iterator -> unit

let of_item item : part = fun walk -> walk.structure_item walk item
let of_expression expression : part = fun walk -> walk.expr walk expression

let path (name : Longident.t Location.loc) = Longident.flatten name.txt
let dotted name = String.concat "." (path name)

(* The values and modules named, by the first part of their path; fields and patterns name modules. *)
let mentions (part : part) =
  let found = ref Names.empty in
  let add name = found := Names.add name !found in
  let first name = match path name with [] -> () | head :: _ -> add head in
  let qualifier name = match path name with head :: _ :: _ -> add head | _ -> () in
  let expr (walk : Ast_iterator.iterator) expression =
    (match expression.pexp_desc with
     | Pexp_ident name | Pexp_construct (name, _) -> first name
     | Pexp_field (_, name) | Pexp_setfield (_, name, _) -> qualifier name
     | Pexp_record (fields, _) -> List.iter (fun (name, _) -> qualifier name) fields
     | _ -> ());
    base.expr walk expression
  in
  let pat (walk : Ast_iterator.iterator) pattern =
    (match pattern.ppat_desc with
     | Ppat_construct (name, _) -> qualifier name
     | Ppat_record (fields, _) -> List.iter (fun (name, _) -> qualifier name) fields
     | _ -> ());
    base.pat walk pattern
  in
  let module_expr (walk : Ast_iterator.iterator) expression =
    (match expression.pmod_desc with Pmod_ident name -> first name | _ -> ());
    base.module_expr walk expression
  in
  let extension_constructor (walk : Ast_iterator.iterator) constructor =
    (match constructor.pext_kind with Pext_rebind name -> qualifier name | _ -> ());
    base.extension_constructor walk constructor
  in
  part { base with expr; pat; module_expr; extension_constructor };
  !found

(* The modules that a module expression names: those that opening it opens; "?" for none. *)
let opened (part : part) =
  let found = ref Names.empty in
  let module_expr (walk : Ast_iterator.iterator) expression =
    (match expression.pmod_desc with
     | Pmod_ident name -> found := Names.add (List.hd (path name)) !found
     | _ -> ());
    base.module_expr walk expression
  in
  part { base with module_expr };
  if Names.is_empty !found then Names.singleton "?" else !found

(* The names that patterns introduce, but for those inside expressions. *)
let pattern_names (part : part) =
  let found = ref Names.empty in
  let pat (walk : Ast_iterator.iterator) pattern =
    (match pattern.ppat_desc with
     | Ppat_var { txt = name; _ } | Ppat_alias (_, { txt = name; _ }) | Ppat_unpack { txt = Some name; _ } ->
       found := Names.add name !found
     | _ -> ());
    base.pat walk pattern
  in
  part { base with pat; expr = (fun _ _ -> ()) };
  !found

let module_name (name : string option Location.loc) =
  match name.txt with Some name -> Names.singleton name | None -> Names.empty

(* The names that an item introduces; those of the values in a module of its own too, for it may be opened. *)
let bound_by_item item =
  let own =
    match item.pstr_desc with
    | Pstr_module { pmb_name; _ } -> module_name pmb_name
    | Pstr_recmodule bindings ->
      List.fold_left (fun names { pmb_name; _ } -> Names.union names (module_name pmb_name)) Names.empty bindings
    | Pstr_primitive { pval_name; _ } -> Names.singleton pval_name.txt
    | _ -> Names.empty
  in
  Names.union own (pattern_names (of_item item))

exception Found

let exists (part : Ast_iterator.iterator -> unit) walk =
  match part walk with () -> false | exception Found -> true

(* Whether something below makes something new, and perhaps mutable, each time. *)
let makes (part : part) =
  let expr (walk : Ast_iterator.iterator) expression =
    match expression.pexp_desc with
    | Pexp_apply _ | Pexp_array _ | Pexp_record _ | Pexp_new _ | Pexp_object _ | Pexp_letop _ | Pexp_lazy _ ->
      raise Found
    | _ -> base.expr walk expression
  in
  exists part { base with expr }

(* OCaml 4 puts the type of [let x : t = e] around [e], with the place of the whole binding. *)
let rec unconstrained expression =
  match expression.pexp_desc with Pexp_constraint (inner, _) -> unconstrained inner | _ -> expression

(* Whether what is bound to the part's expressions can't change: functions, names, literals. Running a
   binding to one of these again changes nothing. *)
let is_stateless (part : part) =
  let expr _ expression =
    match (unconstrained expression).pexp_desc with
    | Pexp_ident _ | Pexp_constant _ -> ()
    | other -> if not (Parsetree_api.is_function other) && makes (of_expression expression) then raise Found
  in
  not (exists part { base with expr })

(* -- items --------------------------------------------------------------------------------------------- *)

let is_unit expression =
  match expression.pexp_desc with Pexp_construct ({ txt = Lident "()"; _ }, _) -> true | _ -> false

let rec ends_in_unit expression =
  match expression.pexp_desc with
  | Pexp_let (_, _, rest) | Pexp_open (_, rest) | Pexp_letmodule (_, _, rest)
  | Pexp_letexception (_, rest) | Pexp_sequence (_, rest) -> ends_in_unit rest
  | Pexp_assert _ -> true
  | _ -> is_unit expression

let rec binds_unit pattern =
  match pattern.ppat_desc with
  | Ppat_constraint (inner, _) -> binds_unit inner
  | Ppat_any | Ppat_construct ({ txt = Lident "()"; _ }, _) -> true
  | _ -> false

(* The expression of [e;;], [let () = e] or [let _ = e], or of [let tests = …; ()]. *)
let statement item =
  match item.pstr_desc with
  | Pstr_eval (expression, _) -> Some expression
  | Pstr_value (_, [ { pvb_pat; pvb_expr; _ } ]) ->
    let expression = unconstrained pvb_expr in
    if binds_unit pvb_pat || ends_in_unit expression then Some expression else None
  | _ -> None

let opened_by_item item =
  match item.pstr_desc with Pstr_open _ | Pstr_include _ -> opened (of_item item) | _ -> Names.empty

(* -- text ---------------------------------------------------------------------------------------------- *)

let is_blank = function ' ' | '\t' | '\n' | '\r' | '\012' | '\011' -> true | _ -> false
let is_word = function 'a' .. 'z' | 'A' .. 'Z' | '0' .. '9' | '_' | '\128' .. '\255' -> true | _ -> false

let find_after text start what =
  let size = String.length what in
  let rec go index =
    if index + size > String.length text then None
    else if String.sub text index size = what then Some (index + size)
    else go (index + 1)
  in
  go start

(* Takes off what may stand before a [let]: parentheses, [begin], comments. *)
let without_brackets text =
  let length = String.length text in
  let at index = if index < length then text.[index] else ' ' in
  let rec go index =
    if index < length && is_blank text.[index] then go (index + 1)
    else if at index = '(' && at (index + 1) = '*' then
      match find_after text (index + 2) "*)" with Some next -> go next | None -> index
    else if at index = '(' then go (index + 1)
    else if index + 5 <= length && String.sub text index 5 = "begin" && not (is_word (at (index + 5))) then
      go (index + 5)
    else index
  in
  let start = go 0 in
  String.sub text start (length - start)

(* Takes one pair of parentheses off when it wraps the whole text. *)
let bare text =
  let length = String.length text in
  let rec closes_last index depth =
    let depth = match text.[index] with '(' -> depth + 1 | ')' -> depth - 1 | _ -> depth in
    if depth = 0 then index = length - 1 else index < length - 1 && closes_last (index + 1) depth
  in
  if length > 1 && text.[0] = '(' && text.[length - 1] = ')' && closes_last 0 0 then
    String.trim (String.sub text 1 (length - 2))
  else text

(* -- the reader ---------------------------------------------------------------------------------------- *)

type reader = {
  source : string;
  standard_modules : string -> bool;
  mutable asserting : Names.t;  (** functions and modules of the tests that assert something *)
  mutable equality_is_ours : bool;
  mutable contexts : int;
}

let slice reader start stop =
  let length = String.length reader.source in
  let start = max 0 (min start length) in
  String.sub reader.source start (max 0 (min stop length - start))

let text_at reader (place : Location.t) = slice reader place.loc_start.pos_cnum place.loc_end.pos_cnum
let text_of reader expression = text_at reader expression.pexp_loc

let raising = function
  | "raise" | "failwith" | "invalid_arg" | "exit" | "raise_notrace" -> true
  | _ -> false

(* Whether something below asserts, raises, or calls a test function that does. *)
let asserts reader (part : part) =
  let calls name =
    match path name with
    | [ name ] -> raising name || Names.mem name reader.asserting
    | [ "Stdlib"; name ] when raising name -> true
    | head :: _ -> Names.mem head reader.asserting
    | [] -> false
  in
  let expr (walk : Ast_iterator.iterator) expression =
    match expression.pexp_desc with
    | Pexp_assert _ -> raise Found
    | Pexp_ident name -> if calls name then raise Found
    | _ -> base.expr walk expression
  in
  exists part { base with expr }

let keeps_equality reader binds opens =
  (not (Names.mem "=" binds || Names.mem "not" binds)) && Names.for_all reader.standard_modules opens

let under reader before piece =
  let any_acts, plain = match before with Top -> (false, true) | Under { any_acts; plain; _ } -> (any_acts, plain) in
  reader.contexts <- reader.contexts + 1;
  Under
    { before;
      piece;
      place = reader.contexts;
      any_acts = any_acts || piece.acts;
      plain = plain && keeps_equality reader piece.binds piece.opens }

let effect_piece text mentions =
  { text; mentions; binds = Names.empty; acts = true; stateless = false; opens = Names.empty }

(* The context of what follows a step: effects stay in force. A claim is run again only where state hangs
   on it: under a binding that is more than a name. *)
let after reader step context =
  match (step, context) with
  | Piece piece, _ -> under reader context piece
  | Claim _, (Top | Under { any_acts = false; _ }) -> context
  | Claim { condition; sides; block; _ }, _ ->
    let again = match sides with Some ({ text; _ }, _) -> text | None -> condition in
    let text = if block then "(" ^ again ^ ");" else "ignore (" ^ again ^ ");" in
    under reader context (effect_piece text Names.empty)

let side reader expression =
  let text = text_of reader expression in
  let text, head =
    match expression.pexp_desc with
    | Pexp_apply ({ pexp_desc = Pexp_ident name; _ }, _) -> (bare text, Some (dotted name))
    | Pexp_apply _ | Pexp_ident _ | Pexp_constant _ | Pexp_construct _ -> (bare text, None)
    | _ -> (text, None)
  in
  { text; mentions = mentions (of_expression expression); head }

let yes = { text = "true"; mentions = Names.empty; head = None }
let no = { yes with text = "false" }

let is_operator name =
  match name.[String.length name - 1] with '\'' -> false | last -> not (is_word last)

(* Reads [a = b]; a plain boolean [a] is [a = true] and [not a] is [a = false]. *)
let sides reader condition =
  match condition.pexp_desc with
  | Pexp_ident _ -> Some (side reader condition, yes)
  | Pexp_apply ({ pexp_desc = Pexp_ident name; _ }, arguments) ->
    (match (path name, arguments) with
     | ([ "=" ] | [ "Stdlib"; "=" ]), [ (_, left); (_, right) ] -> Some (side reader left, side reader right)
     | [ "not" ], [ (_, only) ] -> Some (side reader only, no)
     | [ name ], _ when not (is_operator name) -> Some (side reader condition, yes)
     | _ -> None (* an operator or a library's predicate: the weaker kind *))
  | _ -> None

let claim reader condition context =
  let text = text_of reader condition and mentions = mentions (of_expression condition) in
  let plain = match context with Top -> true | Under { plain; _ } -> plain in
  let sides = if plain && reader.equality_is_ours then sides reader condition else None in
  let shown =
    match sides with
    | None -> bare text
    | Some ({ text = left; _ }, { text = right; _ }) -> left ^ " = " ^ right
  in
  Claim { text = shown; condition = text; context; sides; block = false; mentions }

let block ?(context = Top) ~text ~condition mentions =
  Claim { text; condition; context; sides = None; block = true; mentions }

(* A [let … in], as the part that it binds, the names it introduces and the modules it opens. *)
let binding expression : (part * Names.t * Names.t * expression) option =
  match expression.pexp_desc with
  | Pexp_let (_, bindings, rest) ->
    let part : part = fun walk -> List.iter (walk.value_binding walk) bindings in
    Some (part, pattern_names part, Names.empty, rest)
  | Pexp_open (declaration, rest) ->
    let part : part = fun walk -> walk.open_declaration walk declaration in
    Some (part, pattern_names part, opened part, rest)
  | Pexp_letmodule (name, definition, rest) ->
    let part : part = fun walk -> walk.module_expr walk definition in
    Some (part, Names.union (module_name name) (pattern_names part), Names.empty, rest)
  | Pexp_letexception (constructor, rest) ->
    let part : part = fun walk -> walk.extension_constructor walk constructor in
    Some (part, Names.empty, Names.empty, rest)
  | _ -> None

let binding_text reader expression rest =
  let text =
    without_brackets (slice reader expression.pexp_loc.loc_start.pos_cnum rest.pexp_loc.loc_start.pos_cnum)
  in
  match expression.pexp_desc with
  | Pexp_open ({ popen_expr = { pmod_desc = Pmod_ident name; _ }; _ }, _)
    when text <> "" && (match text.[0] with 'A' .. 'Z' | '\128' .. '\255' -> true | _ -> false) ->
    Printf.sprintf "let open %s in " (dotted name) (* M.( … ) *)
  | _ -> text

let binding_piece reader expression (part, binds, opens, rest) =
  let stateless = is_stateless part in
  { text = binding_text reader expression rest;
    mentions = mentions part;
    binds;
    acts = not stateless;
    stateless;
    opens }

(* Gives [emit] the claims of an expression of type unit, and a piece for each effect between them. *)
let rec flatten reader expression context emit =
  match (expression.pexp_desc, binding expression) with
  | Pexp_sequence (first, rest), _ ->
    let context = ref context in
    flatten reader first !context (fun step ->
        emit step;
        context := after reader step !context);
    flatten reader rest !context emit
  | Pexp_constraint (inner, _), _ -> flatten reader inner context emit
  | Pexp_assert condition, _ -> emit (claim reader condition context)
  | _, Some ((part, _, _, rest) as found) when not (asserts reader part) ->
    flatten reader rest (under reader context (binding_piece reader expression found)) emit
  | _ -> if not (is_unit expression) then emit (leaf reader expression context)

and leaf reader expression context =
  let text = text_of reader expression and part = of_expression expression in
  if asserts reader part then block ~context ~text ~condition:text (mentions part)
  else Piece (effect_piece ("(" ^ text ^ ");") (mentions part))

let item_piece reader item =
  let binds = bound_by_item item and opens = opened_by_item item in
  if asserts reader (of_item item) then reader.asserting <- Names.union reader.asserting binds;
  reader.equality_is_ours <- reader.equality_is_ours && keeps_equality reader binds opens;
  { text = text_at reader item.pstr_loc;
    mentions = mentions (of_item item);
    binds;
    acts = statement item <> None;
    stateless = is_stateless (of_item item);
    opens }

(* [let tests = assert …] also binds a name. *)
let unit_names item emit =
  let unit_name name =
    let text = Printf.sprintf "let %s = ()" name and binds = Names.singleton name in
    emit (Piece { text; mentions = Names.empty; binds; acts = false; stateless = true; opens = Names.empty })
  in
  Names.iter unit_name (bound_by_item item)

let binds_nothing item =
  match item.pstr_desc with Pstr_value _ -> Names.is_empty (bound_by_item item) | _ -> false

let asserting_statement reader item =
  match statement item with
  | Some expression when asserts reader (of_expression expression) -> Some expression
  | _ -> None

(* Takes an item apart into claims, or leaves it what it is. *)
let read_item reader emit item =
  match asserting_statement reader item with
  | Some expression ->
    let emit_claim = function Claim _ as step -> emit step | Piece _ -> () in
    flatten reader expression Top emit_claim;
    unit_names item emit
  | None when binds_nothing item && asserts reader (of_item item) ->
    let text = text_at reader item.pstr_loc in
    emit (block ~text ~condition:(text ^ " in ()") (mentions (of_item item)))
  | None -> emit (Piece (item_piece reader item))

(* Makes an item that asserts one claim. *)
let read_whole_item reader emit item =
  match asserting_statement reader item with
  | Some expression ->
    let text = text_of reader expression in
    emit (block ~text ~condition:text (mentions (of_expression expression)));
    unit_names item emit
  | None -> emit (Piece (item_piece reader item))

let read ~source ~standard_modules ~whole items =
  let reader = { source; standard_modules; asserting = Names.empty; equality_is_ours = true; contexts = 0 } in
  let steps = ref [] in
  let emit step = steps := step :: !steps in
  List.iter (if whole then read_whole_item reader emit else read_item reader emit) items;
  let mentions = mentions (fun walk -> List.iter (walk.structure_item walk) items) in
  { steps = List.rev !steps; mentions }

(* -- JSON ---------------------------------------------------------------------------------------------- *)

let names_json names = Json.List (List.map (fun name -> Json.String name) (Names.elements names))

let piece_fields ({ text; mentions; binds; acts; stateless; opens } : piece) =
  [ ("text", Json.String text);
    ("mentions", names_json mentions);
    ("binds", names_json binds);
    ("effect", Json.Bool acts);
    ("stateless", Json.Bool stateless);
    ("opens", names_json opens) ]

let side_json ({ text; mentions; head } : side) =
  let head = match head with Some head -> Json.String head | None -> Json.Null in
  Json.Object [ ("text", Json.String text); ("mentions", names_json mentions); ("head", head) ]

let sides_json = function
  | None -> Json.Null
  | Some (left, right) -> Json.List [ side_json left; side_json right ]

(* The pieces that claims stand under, each once; [places] tells where one is in the table. *)
type table = { places : (int, int) Hashtbl.t; mutable rows : Json.t list }

let rec place_in table = function
  | Top -> Json.Null
  | Under { place; _ } as context ->
    let rec missing found = function
      | Under { place; before; _ } as context when not (Hashtbl.mem table.places place) ->
        missing (context :: found) before
      | Top | Under _ -> found
    in
    List.iter (add_to table) (missing [] context);
    Json.Int (Hashtbl.find table.places place)

and add_to table = function
  | Top -> ()
  | Under { before; piece; place; _ } ->
    let after = place_in table before in
    Hashtbl.add table.places place (Hashtbl.length table.places);
    table.rows <- Json.Object (("after", after) :: piece_fields piece) :: table.rows

let claim_json table { text; condition; context; sides; block; mentions } =
  Json.Object
    [ ("text", Json.String text);
      ("condition", Json.String condition);
      ("context", place_in table context);
      ("sides", sides_json sides);
      ("block", Json.Bool block);
      ("mentions", names_json mentions) ]

let to_json { steps; mentions } =
  let table = { places = Hashtbl.create 16; rows = [] } in
  let step_json = function
    | Piece piece -> Json.Object [ ("piece", Json.Object (piece_fields piece)) ]
    | Claim claim -> Json.Object [ ("claim", claim_json table claim) ]
  in
  let steps = List.rev (List.rev_map step_json steps) in
  Json.Object
    [ ("pieces", Json.List (List.rev table.rows)); ("steps", Json.List steps); ("mentions", names_json mentions) ]
