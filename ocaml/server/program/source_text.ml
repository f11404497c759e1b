let is_blank = function ' ' | '\t' | '\n' | '\r' | '\012' | '\011' -> true | _ -> false
let is_word = function 'a' .. 'z' | 'A' .. 'Z' | '0' .. '9' | '_' | '\128' .. '\255' -> true | _ -> false

let find_after text start what =
  let size = String.length what in
  let rec go index =
    if index + size > String.length text then None
    else if String.sub text index size = what then Some (index + size)
    else go (index + 1)
  in
  go start

(* Takes off what may stand before a [let]: parentheses, [begin], comments. *)
let without_brackets text =
  let length = String.length text in
  let at index = if index < length then text.[index] else ' ' in
  let rec go index =
    if index < length && is_blank text.[index] then go (index + 1)
    else if at index = '(' && at (index + 1) = '*' then
      match find_after text (index + 2) "*)" with Some next -> go next | None -> index
    else if at index = '(' then go (index + 1)
    else if index + 5 <= length && String.sub text index 5 = "begin" && not (is_word (at (index + 5))) then
      go (index + 5)
    else index
  in
  let start = go 0 in
  String.sub text start (length - start)

(* Takes one pair of parentheses off when it wraps the whole text. *)
let bare text =
  let length = String.length text in
  let rec closes_last index depth =
    let depth = match text.[index] with '(' -> depth + 1 | ')' -> depth - 1 | _ -> depth in
    if depth = 0 then index = length - 1 else index < length - 1 && closes_last (index + 1) depth
  in
  if length > 1 && text.[0] = '(' && text.[length - 1] = ')' && closes_last 0 0 then
    match String.trim (String.sub text 1 (length - 2)) with "" -> text | inner -> inner
  else text

