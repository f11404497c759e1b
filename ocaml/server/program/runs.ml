type t = { jobs : out_channel; endings : in_channel }

let start executable arguments =
  let job_read, job_write = Unix.pipe ~cloexec:true () and ending_read, ending_write = Unix.pipe ~cloexec:true () in
  ignore (Unix.create_process executable (Array.of_list (executable :: arguments)) job_read ending_write Unix.stderr);
  Unix.close job_read;
  Unix.close ending_write;
  { jobs = Unix.out_channel_of_descr job_write; endings = Unix.in_channel_of_descr ending_read }

let perform runner job =
  Ocamler_wire.write runner.jobs job;
  Ocamler_wire.read runner.endings
