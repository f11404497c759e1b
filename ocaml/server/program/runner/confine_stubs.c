/* What the kernel holds a child to before the code of an answer starts in it: limits, death with its parent,
   and on Linux a filter of system calls, which ocaml/containment/seccomp.py makes. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#define CAML_NAME_SPACE
#include <caml/alloc.h>
#include <caml/bigarray.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>

#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

/* Where own_pid stands in the filter, the number of this process is meant, which no one knew before. */
static int filter_calls(value filter, unsigned own_pid)
{
  size_t count = caml_string_length(filter) / sizeof(struct sock_filter), i;
  struct sock_filter *steps = malloc(count * sizeof(struct sock_filter) + 1);
  int held = 0;
  if (steps == NULL || count == 0) return 0;
  memcpy(steps, String_val(filter), count * sizeof(struct sock_filter));
  for (i = 0; i < count; i++)
    if (steps[i].k == own_pid) steps[i].k = (unsigned) getpid();
  struct sock_fprog whole = { (unsigned short) count, steps };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    held = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) == 0;
  free(steps);
  return held;
}
#else
static int filter_calls(value filter, unsigned own_pid) { return 0; }
#endif

/* Puts a filter on this process and its children to come; whether it holds. */
value ocamler_filter_calls(value filter, value own_pid)
{
  return Val_bool(filter_calls(filter, (unsigned) Long_val(own_pid)));
}

static void limit(int what, rlim_t soft, rlim_t hard)
{
  struct rlimit bounds = { soft, hard };
  setrlimit(what, &bounds); /* where a kernel refuses one limit the others still hold */
}

/* Bounds this process: seconds of processor time, bytes of memory, bytes of a file. */
value ocamler_confine(value seconds, value memory_bytes, value file_bytes, value filter, value own_pid)
{
  CAMLparam5(seconds, memory_bytes, file_bytes, filter, own_pid);
  rlim_t cpu = Long_val(seconds);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  /* The soft limit ends a process with SIGXCPU, which tells why. */
  limit(RLIMIT_CPU, cpu, cpu + 1);
  limit(RLIMIT_FSIZE, Long_val(file_bytes), Long_val(file_bytes));
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_NOFILE, 64, 64);
#ifdef RLIMIT_DATA
  /* Memory that can be written: OCaml 5 reserves far more addresses than it uses. */
  limit(RLIMIT_DATA, Long_val(memory_bytes), Long_val(memory_bytes));
#endif
  /* Without a filter, no process more of this user's; root is held by what is around the server alone. */
  if (!filter_calls(filter, (unsigned) Long_val(own_pid))) limit(RLIMIT_NPROC, 0, 0);
  CAMLreturn(Val_unit);
}

#ifdef __APPLE__
#include <libproc.h>
#endif

/* The memory of a process in bytes, where no limit of the kernel's bounds it; 0 elsewhere. */
value ocamler_footprint(value pid)
{
  CAMLparam1(pid);
  long bytes = 0;
#ifdef __APPLE__
  struct rusage_info_v2 usage;
  if (proc_pid_rusage(Int_val(pid), RUSAGE_INFO_V2, (rusage_info_t *) &usage) == 0)
    bytes = (long) usage.ri_phys_footprint;
#endif
  CAMLreturn(Val_long(bytes));
}

/* The harness declares it and no program calls it: the server takes it out of all code. */
value ocamler_left(value left, value right)
{
  (void) right;
  return left;
}

/* Copies a string to an offset of an array of bytes that has room for it, and a part of one out again. */
value ocamler_put(value array, value offset, value text)
{
  memcpy((char *) Caml_ba_data_val(array) + Long_val(offset), String_val(text), caml_string_length(text));
  return Val_unit;
}

value ocamler_get(value array, value offset, value length)
{
  CAMLparam3(array, offset, length);
  CAMLlocal1(text);
  text = caml_alloc_initialized_string(Long_val(length), (char *) Caml_ba_data_val(array) + Long_val(offset));
  CAMLreturn(text);
}
