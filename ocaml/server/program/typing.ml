type refusal =
  | Syntax
  | Type

type 'a checked = {
  result : ('a, refusal) result;
  reports : Json.t list;
}

type answer = { implementation : Typedtree.implementation; unit_name : string }

let initial = ref Env.empty
let settings = ref (Warnings.backup ())
let untouched = ref (Btype.snapshot ())

let start ~interfaces =
  Clflags.dont_write_files := true;
  Clflags.color := Some Misc.Color.Never;
  Clflags.include_dirs := [ interfaces ];
  Compmisc.init_path ();
  initial := Compmisc.initial_env ();
  settings := Warnings.backup ();
  untouched := Btype.snapshot ()

let reset () =
  Btype.backtrack !untouched;
  untouched := Btype.snapshot ();
  Levels_api.reset ();
  Typecore.reset_delayed_checks ();
  Env.reset_required_globals ();
  Env.reset_cache_toplevel ();
  Warnings.restore !settings;
  (* Whatever a refused source left to be warned of is nobody's now. *)
  ignore (Reports.collecting Levels_api.warn_unused);
  Warnings.reset_fatal ()

let judged refusal step =
  let attempt () = match step () with result -> Ok result | exception error -> Error error in
  let outcome, reports = Reports.collecting attempt in
  match outcome with
  | Ok result -> { result = Ok result; reports }
  | Error (Warnings.Errors) -> { result = Error refusal; reports }
  | Error error ->
    (match Reports.of_exception error with
     | Some report -> { result = Error refusal; reports = reports @ [ report ] }
     | None -> raise error)

let parse ~name source =
  judged Syntax (fun () ->
      Location.input_name := name;
      let lexbuf = Lexing.from_string source in
      Location.init lexbuf name;
      Parse.implementation lexbuf)

let implementation ~source ~unit_name ast =
  Unit_api.enter ~source ~name:unit_name;
  judged Type (fun () ->
      { implementation = Unit_api.type_implementation ~source ~name:unit_name !initial ast; unit_name })

let finish () =
  Levels_api.warn_unused ();
  Warnings.check_fatal ()

let signature { implementation; _ } =
  let text = Buffer.create 256 in
  let formatter = Format.formatter_of_buffer text in
  Printtyp.wrap_printing_env ~error:false !initial (fun () ->
      Format.fprintf formatter "%a@." (Printtyp.printed_signature "") implementation.Typedtree.signature);
  Buffer.contents text

(* A name that a refused item would have bound gets any type that is wanted, so that what uses it is judged. *)
let bound_by item =
  let names = ref [] in
  let pat (iterator : Ast_iterator.iterator) (pattern : Parsetree.pattern) =
    (match pattern.ppat_desc with
     | Ppat_var name | Ppat_alias (_, name) -> names := name.txt :: !names
     | _ -> ());
    Ast_iterator.default_iterator.pat iterator pattern
  in
  let iterator = { Ast_iterator.default_iterator with pat; expr = (fun _ _ -> ()) } in
  iterator.structure_item iterator item;
  !names

let with_names env names =
  let described =
    { Types.val_type = Btype.newgenvar ();
      val_kind = Val_reg;
      val_loc = Location.none;
      val_attributes = [];
      val_uid = Types.Uid.internal_not_actually_unique }
  in
  List.fold_left (fun env name -> Env.add_value (Ident.create_local name) described env) env names

(* The other names that an item introduces: what is said of them behind a refused item is no news. *)
let defines_more (item : Parsetree.structure_item) =
  match item.pstr_desc with
  | Pstr_value _ | Pstr_eval _ | Pstr_attribute _ -> false
  | _ -> true

let phrases ast =
  let rec go env found = function
    | [] -> List.rev found
    | item :: rest ->
      let step () =
        Typecore.reset_delayed_checks ();
        let _, _, env = Structure_api.type_structure env [ item ] in
        Typecore.force_delayed_checks ();
        env
      in
      Levels_api.reset ();
      (match judged Type step with
       | { result = Ok env; _ } -> go env found rest
       | { result = Error _; reports } ->
         let found = match List.rev reports with last :: _ -> last :: found | [] -> found in
         if defines_more item then List.rev found else go (with_names env (bound_by item)) found rest)
  in
  go !initial [] ast

let against { implementation; unit_name = answer_name } ~unit_name ast =
  Unit_api.enter ~source:"tests.ml" ~name:unit_name;
  ignore (Warnings.parse_options false "-a");
  judged Type (fun () ->
      let answer = Ident.create_persistent answer_name in
      let offered = Types.Mty_signature implementation.Typedtree.signature in
      let env = Env.add_module answer Types.Mp_present offered !initial in
      Typecore.reset_delayed_checks ();
      Env.reset_required_globals ();
      let structure, signature, _ = Structure_api.type_structure env ast in
      Typecore.force_delayed_checks ();
      (structure, signature))

let types_of signature =
  let value = function
    | Types.Sig_value (name, described, _) ->
      Some (Ident.name name, Format.asprintf "%a" Printtyp.type_scheme described.val_type)
    | _ -> None
  in
  List.filter_map value signature
