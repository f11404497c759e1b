(* An effect that nobody handles, where there are effects.
   stages: type tests
   earns: 0 *)
type _ Effect.t += Ask : int -> int Effect.t
let double x = Effect.perform (Ask x)
