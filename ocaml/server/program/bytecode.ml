module Names = Set.Make (String)

type program = {
  last : string;
  code : Lambda.lambda;
  required : Ident.Set.t;
}

type compiled = {
  bytes : string Lazy.t;
  needs : string list;
  calls : string list;
}

let translate ~unit_name typed =
  let { Lambda.code; required_globals; _ } = Translmod.transl_implementation unit_name typed in
  { last = unit_name;
    code = Simplif.simplify_lambda code;
    required = required_globals }

let lambda program = program.code
let with_lambda program code = { program with code }

(* A loader refuses a file that uses a unit which it has not loaded yet, also one that the file sets itself:
   the first unit becomes a variable of the second. *)
let before first second =
  let block = Ident.create_local first.last in
  let elsewhere = Ident.Set.filter (fun id -> Ident.name id <> first.last) second.required in
  let body = match first.code with Lambda.Lprim (Psetglobal _, [ body ], _) -> body | code -> code in
  let rec within = function
    | Lambda.Lprim (Pgetglobal id, [], _) when Ident.name id = first.last -> Lambda.Lvar block
    | code -> Lambda.shallow_map within code
  in
  { second with
    code = Lambda.bind Strict block body (within second.code);
    required = Ident.Set.union first.required elsewhere }

(* The units that the installed standard library is made of. *)
let is_standard name =
  let starts prefix = String.length name >= String.length prefix && String.sub name 0 (String.length prefix) = prefix in
  List.exists starts
    [ "Stdlib"; "CamlinternalAtomic"; "CamlinternalFormat"; "CamlinternalLazy"; "CamlinternalMod"; "CamlinternalOO";
      "Std_exit" ]

let mentioned { code; required; last } =
  let units = ref Names.empty and calls = ref Names.empty in
  let note id = if not (Ident.is_predef id) then units := Names.add (Ident.name id) !units in
  let rec visit code =
    (match code with
     | Lambda.Lprim (Pgetglobal id, _, _) -> note id
     | Lambda.Lprim (Pccall primitive, _, _) -> calls := Names.add primitive.prim_name !calls
     | _ -> ());
    Lambda.iter_head_constructor visit code
  in
  Ident.Set.iter note required;
  visit code;
  (Names.filter (fun name -> not (is_standard name || name = last)) !units, !calls)

let contents path =
  let channel = open_in_bin path in
  Fun.protect ~finally:(fun () -> close_in channel) (fun () -> really_input_string channel (in_channel_length channel))

(* The compiler writes to a file and to nothing else. *)
let written { last = name; required; _ } code =
  let path = name ^ ".cmo" in
  let channel = open_out_bin path in
  Fun.protect
    ~finally:(fun () -> close_out channel)
    (fun () -> Unit_api.emit channel ~name ~path ~required_globals:required code);
  let bytes = contents path in
  Sys.remove path;
  bytes

let compile program =
  let units, calls = mentioned program in
  let bytes = lazy (written program (Bytegen.compile_implementation program.last program.code)) in
  { bytes; needs = Names.elements units; calls = Names.elements calls }
