(* Answers what the judge asks, one frame of fields after another: types programs, compiles them to bytecode
   and has the runner run them. The first field names the request; the first of the reply is JSON. *)

let answer_name = "Ocamler_answer"
let harness_name = "Ocamler_dump"
let tests_file = "tests.ml"

type answer = { typed : Typing.answer; ast : Parsetree.structure; program : Bytecode.program }

let most_words = 32 * 1024 * 1024 (* 256 MB: the compiler keeps a little of every program *)

type state = {
  runner : Runs.t;
  primitives : (string, unit) Hashtbl.t;  (* those of the runtime that a program of its own would have *)
  looks_elsewhere : unit -> bool;  (* whether modules are looked for in more places than at first *)
  mutable answer : answer option;
  ready : (string, string Lazy.t) Hashtbl.t;  (* bytecode that can be run, by what the judge calls it *)
}

let json value =
  let buffer = Buffer.create 1024 in
  Json.write buffer value;
  Buffer.contents buffer

let stage : Typing.refusal -> Json.t = function
  | Syntax -> Json.String "syntax"
  | Type -> Json.String "type"

let refused stage_of reports = [ ("stage", stage stage_of); ("reports", Json.List reports) ]

(* Parses and types; [accepted] goes on with what is well typed. *)
let typed ~file parse_and ~accepted =
  let parsed : _ Typing.checked = Typing.parse ~name:file parse_and in
  match parsed.result with
  | Error refusal -> refused refusal parsed.reports
  | Ok ast -> accepted parsed.reports ast

let after reports (checked : _ Typing.checked) accepted =
  match checked.result with
  | Error refusal -> refused refusal (reports @ checked.reports)
  | Ok result -> accepted (reports @ checked.reports) result

let accepted ?(more = []) reports = ("stage", Json.String "pass") :: ("reports", Json.List reports) :: more

let unit_of file = String.capitalize_ascii (Filename.remove_extension file)

(* Whether a program of its own would link: the runner offers more than one has. *)
let links state (compiled : Bytecode.compiled) =
  List.for_all (fun name -> name = harness_name) compiled.needs
  && List.for_all (Hashtbl.mem state.primitives) compiled.calls

let both (implementation : Typedtree.implementation) = (implementation.structure, implementation.coercion)

(* Types a unit of its own and does [last] with it, which may be refused too. *)
let whole_unit ~file ast last =
  let unit_name = unit_of file in
  let typed = Typing.implementation ~source:file ~unit_name ast in
  match typed.result with
  | Error refusal -> { typed with result = Error refusal }
  | Ok result ->
    let made = Typing.judged Type (fun () -> let made = last ~unit_name result in Typing.finish (); made) in
    { made with reports = typed.reports @ made.reports }

let check file source warnings =
  List.iter (fun spec -> ignore (Warnings.parse_options false spec)) warnings;
  let translated ~unit_name result =
    ignore (Bytecode.translate ~unit_name (both result.Typing.implementation));
    result
  in
  typed ~file source ~accepted:(fun reports ast ->
      let checked = whole_unit ~file ast translated in
      match checked.result with
      | Error refusal -> refused refusal (reports @ checked.reports) @ [ ("more", Json.List (Typing.phrases ast)) ]
      | Ok result ->
        let signature = Json.String (Typing.signature result) in
        accepted (reports @ checked.reports) ~more:[ ("signature", signature) ])

let compile state file source =
  let translated ~unit_name result =
    let program = Bytecode.translate ~unit_name (both result.Typing.implementation) in
    (result, program, Bytecode.compile program)
  in
  typed ~file source ~accepted:(fun reports ast ->
      after reports (whole_unit ~file ast translated) (fun reports (typed, program, compiled) ->
          state.answer <- Some { typed; ast; program };
          Hashtbl.replace state.ready "answer" compiled.Bytecode.bytes;
          accepted reports
            ~more:
              [ ("signature", Json.String (Typing.signature typed));
                ("empty", Json.Bool (ast = []));
                ("links", Json.Bool (links state compiled)) ]))

exception Not_asked of string

let the_answer state =
  match state.answer with
  | Some answer -> answer
  | None -> raise (Not_asked "no answer has been compiled")

(* Types a program beside the answer. *)
let beside state ~unit_name ~file source go_on =
  let { typed = answer; _ } = the_answer state in
  typed ~file source ~accepted:(fun reports ast -> after reports (Typing.against answer ~unit_name ast) go_on)

let fits state file source = beside state ~unit_name:"Ocamler_tests" ~file source (fun reports _ -> accepted reports)

(* Translates a program that sees the answer's types. *)
let translated_beside state name source go_on =
  let unit_name = String.capitalize_ascii name in
  beside state ~unit_name ~file:(name ^ ".ml") source (fun reports (structure, _) ->
      let translated () = Bytecode.translate ~unit_name (structure, Typedtree.Tcoerce_none) in
      after reports (Typing.judged Type translated) go_on)

let made_ready state name reports compiled =
  Hashtbl.replace state.ready name compiled.Bytecode.bytes;
  accepted reports ~more:[ ("links", Json.Bool (links state compiled)) ]

let constants values =
  let value (index, tokens) = Json.List [ Int index; String tokens ] in
  ("values", Json.List (List.map value values))

(* Compiles the program of expected values, or tells them where they are constants. *)
let expect state source =
  translated_beside state "expected" source (fun reports program ->
      match Literal.claims (Bytecode.lambda program) with
      | Some values -> accepted reports ~more:[ constants values ]
      | None -> made_ready state "expected" reports (Bytecode.compile program))

(* Compiles a driver whose equations have their right sides, which it takes out; only where all are constants. *)
let build_whole state source =
  translated_beside state "driver" source (fun reports program ->
      match Literal.without_rights (Bytecode.lambda program) with
      | None -> accepted reports
      | Some (code, values) ->
        let program = Bytecode.before (the_answer state).program (Bytecode.with_lambda program code) in
        made_ready state "driver" reports (Bytecode.compile program) @ [ constants values ])

let build state source =
  translated_beside state "driver" source (fun reports program ->
      made_ready state "driver" reports (Bytecode.compile (Bytecode.before (the_answer state).program program)))

let values state source =
  beside state ~unit_name:"Values" ~file:"values.ml" source (fun reports (_, signature) ->
      let value (name, kind) = (name, Json.String kind) in
      accepted reports ~more:[ ("values", Json.Object (List.map value (Typing.types_of signature))) ])

(* Where the answer's top level binds a name last, in bytes. *)
let definition state name =
  let found = ref Json.Null in
  let pat (iterator : Ast_iterator.iterator) (pattern : Parsetree.pattern) =
    (match pattern.ppat_desc with
     | Ppat_var bound when bound.txt = name ->
       found := Json.List [ Int pattern.ppat_loc.loc_start.pos_cnum; Int pattern.ppat_loc.loc_end.pos_cnum ]
     | _ -> ());
    Ast_iterator.default_iterator.pat iterator pattern
  in
  let iterator = { Ast_iterator.default_iterator with pat; expr = (fun _ _ -> ()) } in
  List.iter (iterator.structure_item iterator) (the_answer state).ast;
  [ ("place", !found) ]

let claims whole standard source =
  let modules = Hashtbl.create 64 in
  List.iter (fun name -> Hashtbl.replace modules name ()) (String.split_on_char ' ' standard);
  typed ~file:tests_file source ~accepted:(fun reports ast ->
      let suite = Suite.read ~source ~standard_modules:(Hashtbl.mem modules) ~whole ast in
      accepted reports ~more:[ ("suite", Suite.to_json suite) ])

let names state =
  ignore state;
  typed ~file:"standard.ml" "include Stdlib" ~accepted:(fun reports ast ->
      after reports (Typing.implementation ~source:"standard.ml" ~unit_name:"Standard" ast) (fun reports result ->
          accepted reports ~more:[ ("signature", Json.String (Typing.signature result)) ]))

let forget state =
  state.answer <- None;
  Hashtbl.reset state.ready;
  Typing.reset ()

let program state name =
  match Hashtbl.find_opt state.ready name with
  | Some bytes -> Lazy.force bytes
  | None -> raise (Not_asked (name ^ " has not been compiled"))

(* Whether another server should take over: one that has looked in more places than a compiler starts with, or
   that holds on to much memory, is not as new. *)
let spent state = state.looks_elsewhere () || (Gc.quick_stat ()).heap_words > most_words

let anew state fields = [ json (Object (fields @ [ ("spent", Json.Bool (spent state)) ])) ]

let handle state : string list -> string list = function
  | "check" :: file :: source :: warnings -> forget state; anew state (check file source warnings)
  | [ "compile"; debug; file; source ] ->
    forget state;
    Clflags.debug := debug = "true";
    anew state (compile state file source)
  | [ "standard" ] -> anew state (names state)
  | [ "claims"; whole; standard; source ] -> [ json (Object (claims (whole = "true") standard source)) ]
  | [ "fits"; file; source ] -> [ json (Object (fits state file source)) ]
  | [ "expect"; source ] -> [ json (Object (expect state source)) ]
  | [ "build whole"; source ] -> [ json (Object (build_whole state source)) ]
  | [ "build"; source ] -> [ json (Object (build state source)) ]
  | [ "definition"; name ] -> [ json (Object (definition state name)) ]
  | [ "values"; source ] -> [ json (Object (values state source)) ]
  | "run" :: name :: job -> json (Object []) :: Runs.perform state.runner (program state name :: job)
  | request :: _ -> raise (Not_asked (request ^ " is no request"))
  | [] -> raise (Not_asked "an empty request")

let rec serve state input output =
  match Ocamler_wire.read input with
  | exception Ocamler_wire.Closed -> ()
  | request ->
    Ocamler_wire.write output (handle state request);
    serve state input output

let lines path =
  let channel = open_in path in
  let rec go found =
    match input_line channel with
    | line -> go (line :: found)
    | exception End_of_file -> close_in channel; found
  in
  go []

(* A larger minor heap: what one request makes is mostly dead before the next. *)
let minor_heap_words = 1 lsl 20

let () =
  match Array.to_list Sys.argv with
  | [ _; "-trial" ] -> ()
  | _ :: home :: arguments ->
    let inside = Filename.concat home in
    Gc.set { (Gc.get ()) with minor_heap_size = minor_heap_words; space_overhead = 1000 };
    let primitives = Hashtbl.create 1024 in
    List.iter (fun name -> Hashtbl.replace primitives name ()) (lines (inside "primitives"));
    let runner = Runs.start (inside "runner") arguments in
    Typing.start ~interfaces:(inside "interfaces");
    let places = Load_path.get_paths () in
    let looks_elsewhere () = Load_path.get_paths () <> places in
    let input = Unix.in_channel_of_descr (Unix.dup ~cloexec:true Unix.stdin)
    and output = Unix.out_channel_of_descr (Unix.dup ~cloexec:true Unix.stdout) in
    Unix.dup2 Unix.stderr Unix.stdout;
    serve { runner; primitives; looks_elsewhere; answer = None; ready = Hashtbl.create 4 } input output
  | _ ->
    prerr_endline "ocamler_server: give the folder that it was built in, then the arguments of the runner";
    exit 2
