(* The printer of reports is a record of functions in every version, so each part is printed by its own
   function and laid out as ocamlc lays it out; what else a version adds (footnotes) comes with the rest. *)

let nothing _ _ _ _ = ()

let position (place : Lexing.position) =
  Json.List [ Json.Int place.pos_lnum; Json.Int (place.pos_cnum - place.pos_bol) ]

let location (loc : Location.t) =
  if loc = Location.none then Json.Null
  else
    Json.Object
      [ ("file", Json.String loc.loc_start.pos_fname);
        ("start", position loc.loc_start);
        ("end", position loc.loc_end) ]

let printed print =
  let buffer = Buffer.create 256 in
  let formatter = Format.formatter_of_buffer buffer in
  Style_api.prepare formatter;
  print formatter;
  Format.pp_print_flush formatter ();
  Buffer.contents buffer

let kind : Location.report_kind -> Json.t = function
  | Report_error -> Json.String "Error"
  | Report_warning name -> Json.String ("Warning " ^ name)
  | Report_warning_as_error name -> Json.String ("Error (warning " ^ name ^ ")")
  | Report_alert name -> Json.String ("Alert " ^ name)
  | Report_alert_as_error name -> Json.String ("Error (alert " ^ name ^ ")")

let message printer (report : Location.report) =
  let bare = Location.{ printer with pp_main_loc = nothing; pp_submsgs = nothing } in
  printed (fun formatter -> bare.pp bare formatter report)

let related (printer : Location.report_printer) report (sub : Location.msg) =
  let text formatter = Format.fprintf formatter "@[  %a@]" (printer.pp_submsg_txt printer report) sub.txt in
  let place = if sub.loc.loc_ghost then Json.Null else location sub.loc in
  Json.Object [ ("place", place); ("text", Json.String (printed text)) ]

let json (report : Location.report) =
  let printer = Location.default_report_printer () in
  Json.Object
    [ ("kind", kind report.kind);
      ("place", location report.main.loc);
      ("text", Json.String (message printer report));
      ("related", Json.List (List.map (related printer report) report.sub)) ]

let collecting run =
  let found = ref [] in
  let keep report = found := json report :: !found in
  let collect reporter loc subject =
    Option.iter keep (reporter loc subject);
    None
  in
  let warnings = !Location.warning_reporter and alerts = !Location.alert_reporter in
  Location.warning_reporter := collect Location.default_warning_reporter;
  Location.alert_reporter := collect Location.default_alert_reporter;
  let finally () =
    Location.warning_reporter := warnings;
    Location.alert_reporter := alerts
  in
  let result = Fun.protect ~finally run in
  (result, List.rev !found)

let of_exception error =
  match Location.error_of_exn error with
  | Some (`Ok report) -> Some (json report)
  | Some `Already_displayed | None -> None
