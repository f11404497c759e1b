open Parsetree
open Syntax
open Source_text
module Names = Names

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
