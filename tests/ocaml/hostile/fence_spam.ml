(* Fences inside of fences.
   stages: syntax
   earns: 0 *)
```ocaml
```ocaml
let double x = 2 * x
```
```
