(* A handler that drops the rest of the program, results and all.
   stages: type tests
   earns: 0 *)
type _ Effect.t += Stop : int Effect.t
let double _ =
  Effect.Deep.match_with (fun () -> Effect.perform Stop) ()
    { retc = Fun.id; exnc = raise; effc = (fun (type a) (e : a Effect.t) ->
        match e with Stop -> Some (fun (_ : (a, int) Effect.Deep.continuation) -> exit 0) | _ -> None) }
