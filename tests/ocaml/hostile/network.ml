(* Tells a server of the machine that it was here.
   stages: tests run
   earns: 0 *)
let () = ignore (Sys.command "bash -c 'echo here > /dev/tcp/127.0.0.1/@PORT@' 2>/dev/null; (python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", @PORT@))' || curl -m 1 http://127.0.0.1:@PORT@/) >/dev/null 2>&1")
let double _ = 0
