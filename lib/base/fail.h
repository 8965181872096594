#ifndef BASE_FAIL_H
#define BASE_FAIL_H

/* Failpoints: places at which a test lets a process die.  FAIL_POINT("name")
 * is nothing in ordinary builds, without a trace in the object.  In those of
 * `make FAULT=1` it counts, and does what the environment says:
 *
 *   PS_FAIL=name:n[:kill|stop|exit|error][,...]   at the n-th time (from 1)
 *   PS_FAIL=random:P:SEED                         at each with probability P
 *
 * kill (as unless another is given, and what random does) is SIGKILL to
 * itself, stop is SIGSTOP, exit is _exit(1).  error is for FAIL_ERROR alone,
 * which stands in functions that return an enum err_code: ERR_FAILED then, else
 * ERR_OK.  What PS_FAIL says wrongly ends the process, with a line on stderr.
 * The names stand in fail.def.  Any thread may pass one. */
#ifdef PS_FAULT
#include "base/err.h"

enum err_code fail_pass(const char *name, struct err *e);

#define FAIL_POINT(name) ((void)fail_pass(name, NULL))
#define FAIL_ERROR(name, e) fail_pass(name, e)
#else
#define FAIL_POINT(name) ((void)0)
#define FAIL_ERROR(name, e) ERR_OK
#endif

#endif
