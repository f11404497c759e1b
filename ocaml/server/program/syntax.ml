open Parsetree
module Names = Set.Make (String)

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

