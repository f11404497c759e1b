(* Runs programs that nobody trusts: a small process that forks a child for each, hands it the bytecode, and
   watches it from outside. Jobs come as frames on standard input, what became of them goes to standard
   output. The code of an answer is never loaded into this process itself. *)

external confine : int -> int -> int -> string -> int -> unit = "ocamler_confine"
external filter_calls : string -> int -> bool = "ocamler_filter_calls"
external footprint : int -> int = "ocamler_footprint"
external set_arguments : string array -> unit = "caml_sys_modify_argv"

type job = {
  program : string;  (* the bytes of a .cmo *)
  first : int;  (* the claim to begin with *)
  nonce : string;
  seconds : float;  (* of wall time for all *)
  claim_seconds : float;
  memory_bytes : int;
  output_bytes : int;  (* of each stream *)
  file_bytes : int;
  backtrace : bool;
}

let job = function
  | [ program; first; nonce; seconds; claim_seconds; memory_bytes; output_bytes; file_bytes; backtrace ] ->
    { program;
      first = int_of_string first;
      nonce;
      seconds = float_of_string seconds;
      claim_seconds = float_of_string claim_seconds;
      memory_bytes = int_of_string memory_bytes;
      output_bytes = int_of_string output_bytes;
      file_bytes = int_of_string file_bytes;
      backtrace = backtrace = "true" }
  | _ -> failwith "ocamler_runner: this is no job"

(* A child pays for every page of this process that it or the collector touches: nothing is collected here
   but what is young, and the children go by the usual rule again. *)
let usual = Gc.get ()

let settle () =
  Gc.set usual; (* compacting makes room for the overhead that is set *)
  Gc.compact ();
  Gc.set { usual with space_overhead = 1_000 (* more, and the heap grows by as much more than is asked for *) }

let settled_words = 1 lsl 21 (* 16 MB; a child's limit on memory counts what it was born with *)
let settle_again () = if (Gc.quick_stat ()).heap_words > settled_words then settle ()

(* The filters of system calls, one for this process and one more for its children, and what stands in them for
   the number of the process; empty where there are none. *)
let own_filter, childs_filter, own_pid =
  let byte text i = Char.chr (int_of_string ("0x" ^ String.sub text (2 * i) 2)) in
  let of_hex text = String.init (String.length text / 2) (byte text) in
  match Sys.argv with
  | [| _; own; childs; own_pid |] -> (of_hex own, of_hex childs, int_of_string own_pid)
  | _ -> ("", "", 0)

exception Child of job

let slate_bytes = 8 * 1024 * 1024 (* what claims may write down in one child *)
let run_folder = "run"
let program_file = "program.cmo"

(* In the child: loads the program, which runs it. It is in memory as a whole before its code starts, so the
   file is of no use to it. An exception ends the child as it ends any program. *)
let perform job slate =
  Gc.set usual;
  Printexc.record_backtrace job.backtrace;
  set_arguments [| "program" |];
  let telling = Ocamler_slate.telling slate in
  Ocamler_dump.start ~first:job.first ~nonce:job.nonce telling;
  let path = Filename.concat (Sys.getcwd ()) program_file in
  Sys.chdir run_folder;
  confine (int_of_float job.seconds + 2) job.memory_bytes job.file_bytes childs_filter own_pid;
  match Dynlink.loadfile path with
  | () -> ()
  | exception Dynlink.Error (Dynlink.Library's_module_initializers_failed error) ->
    Printexc.raise_with_backtrace error (Printexc.get_raw_backtrace ())
  | exception Dynlink.Error error ->
    (* No fault of the program's, which has not begun. *)
    telling.tell (Printf.sprintf "%s unloaded %s\n" job.nonce (String.escaped (Dynlink.error_message error)))

type stream = {
  descriptor : Unix.file_descr;
  kept : Buffer.t;
  most : int;
  mutable is_open : bool;
  mutable is_over : bool;
}

let stream descriptor most = { descriptor; kept = Buffer.create 1024; most; is_open = true; is_over = false }
let chunk = Bytes.create 65536

(* Takes in what has come, up to the most that is kept of it. *)
let take stream =
  match Unix.read stream.descriptor chunk 0 (Bytes.length chunk) with
  | 0 -> stream.is_open <- false
  | count ->
    let room = stream.most - Buffer.length stream.kept in
    Buffer.add_subbytes stream.kept chunk 0 (min room count);
    stream.is_over <- stream.is_over || count > room
  | exception Unix.Unix_error (EINTR, _, _) -> ()
  | exception Unix.Unix_error _ -> stream.is_open <- false

type child = { pid : int; job : job; started : float; streams : stream list; slate : Ocamler_slate.t }
type ending = { status : Unix.process_status; limit : string }

let tick = 0.05 (* seconds between looks at what does not tell by itself: memory, an end behind open pipes *)

let ended child =
  match Unix.waitpid [ WNOHANG ] child.pid with
  | 0, _ -> None
  | _, status -> Some status

(* Not yet waited for, so the number is still this child's. *)
let kill child limit =
  (try Unix.kill (-child.pid) Sys.sigkill with Unix.Unix_error _ -> ());
  (try Unix.kill child.pid Sys.sigkill with Unix.Unix_error _ -> ());
  { status = snd (Unix.waitpid [] child.pid); limit }

(* A child's pipes are closed a moment before it has ended; one that closed them itself may go on for long. *)
let first_pause, longest_pause = (0.00002, 0.01)

let ready ?(pause = longest_pause) child seconds =
  match List.filter (fun stream -> stream.is_open) child.streams with
  | [] -> if seconds > 0. then Unix.sleepf (min seconds pause); []
  | opened ->
    let among found = List.filter (fun stream -> List.memq stream.descriptor found) opened in
    (match Unix.select (List.map (fun stream -> stream.descriptor) opened) [] [] seconds with
     | found, _, _ -> among found
     | exception Unix.Unix_error (EINTR, _, _) -> [])

(* Watches the child until it has ended or has met a limit; [heard] is when it was last seen to have written
   down more than [told] bytes. *)
let rec watch ?(pause = first_pause) child ~told ~heard =
  let { job; _ } = child in
  let now = Unix.gettimeofday () in
  let written = Ocamler_slate.length child.slate in
  let heard = if written > told then now else heard in
  let left = child.started +. job.seconds -. now in
  let left = if written > 0 then min left (heard +. job.claim_seconds -. now) else left in
  if left <= 0. then kill child "time"
  else if List.exists (fun stream -> stream.is_over) child.streams then kill child "output"
  else if footprint child.pid > job.memory_bytes then kill child "memory"
  else begin
    let found = ready ~pause child (min left tick) in
    List.iter take found;
    let closed = List.for_all (fun stream -> not stream.is_open) child.streams in
    match if closed || found = [] then ended child else None with
    | Some status -> drain child; { status; limit = "" }
    | None -> watch child ~told:written ~heard ~pause:(if closed then min (2. *. pause) longest_pause else pause)
  end

and drain child =
  match ready child 0. with
  | [] -> ()
  | found -> List.iter take found; drain child

(* What programs leave behind is removed, whatever they did to its permissions. *)
let rec remove path =
  match (Unix.lstat path).st_kind with
  | S_DIR ->
    (try Unix.chmod path 0o700 with Unix.Unix_error _ -> ());
    Array.iter (fun name -> remove (Filename.concat path name)) (try Sys.readdir path with Sys_error _ -> [||]);
    (try Unix.rmdir path with Unix.Unix_error _ -> ())
  | _ -> (try Unix.unlink path with Unix.Unix_error _ -> ())
  | exception Unix.Unix_error _ -> ()

let clear () = Array.iter (fun name -> remove name) (Sys.readdir Filename.current_dir_name)

let signal_number signal =
  let known = [ (Sys.sigkill, 9); (Sys.sigsegv, 11); (Sys.sigabrt, 6); (Sys.sigfpe, 8); (Sys.sigill, 4); (Sys.sigpipe, 13);
                (Sys.sigterm, 15); (Sys.sigint, 2); (Sys.sighup, 1); (Sys.sigalrm, 14); (Sys.sigbus, 7); (Sys.sigxcpu, 24);
                (Sys.sigxfsz, 25); (Sys.sigquit, 3); (Sys.sigtrap, 5) ] in
  match List.assoc_opt signal known with
  | Some number -> number
  | None -> abs signal

let status_code = function
  | Unix.WEXITED code -> code
  | WSIGNALED signal | WSTOPPED signal -> -signal_number signal

(* Forks the child. In it this raises [Child], so that the job is run from the program's last line. *)
let start job slate =
  Unix.mkdir run_folder 0o700;
  let file = open_out_bin program_file in
  output_string file job.program;
  close_out file;
  let output = Unix.pipe ~cloexec:true () and error = Unix.pipe ~cloexec:true () in
  let read_end = fst and write_end = snd in
  match Unix.fork () with
  | 0 ->
    ignore (Unix.setsid ());
    let nothing = Unix.openfile "/dev/null" [ O_RDONLY ] 0 in
    Unix.dup2 nothing Unix.stdin;
    Unix.dup2 (write_end output) Unix.stdout;
    Unix.dup2 (write_end error) Unix.stderr;
    List.iter Unix.close [ nothing; read_end output; write_end output; read_end error; write_end error ];
    raise (Child job)
  | pid ->
    List.iter (fun pipe -> Unix.close (write_end pipe)) [ output; error ];
    let streams = [ stream (read_end output) job.output_bytes; stream (read_end error) job.output_bytes ] in
    { pid; job; started = Unix.gettimeofday (); streams; slate }

let reply child ending =
  let seconds = Unix.gettimeofday () -. child.started in
  List.iter (fun stream -> Unix.close stream.descriptor) child.streams;
  let truncated = List.exists (fun stream -> stream.is_over) child.streams in
  [ string_of_int (status_code ending.status); ending.limit; string_of_bool truncated; Printf.sprintf "%.6f" seconds ]
  @ List.map (fun stream -> Buffer.contents stream.kept) child.streams
  @ [ Ocamler_slate.contents child.slate ]

let rec serve input output slate =
  match Ocamler_wire.read input with
  | exception Ocamler_wire.Closed -> ()
  | fields ->
    let child = start (job fields) slate in
    let ending = watch child ~told:0 ~heard:child.started in
    clear ();
    Ocamler_wire.write output (reply child ending);
    Ocamler_slate.wipe slate;
    settle_again ();
    serve input output slate

(* Standard input and output belong to the children: the frames go over copies of them. *)
let () =
  let copy descriptor = Unix.dup ~cloexec:true descriptor in
  let input = copy Unix.stdin and output = copy Unix.stdout in
  ignore (filter_calls own_filter own_pid);
  Dynlink.allow_unsafe_modules true;
  ignore (Dynlink.main_program_units ()); (* makes it read its tables now, not in each child *)
  clear ();
  settle ();
  let slate = Ocamler_slate.make slate_bytes in
  match serve (Unix.in_channel_of_descr input) (Unix.out_channel_of_descr output) slate with
  | () -> ()
  | exception Child job ->
    List.iter Unix.close [ input; output ];
    perform job slate
