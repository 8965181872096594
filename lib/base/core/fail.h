/* SPDX-License-Identifier: ISC */
#ifndef CORE_FAIL_H
#define CORE_FAIL_H

/* Failpoints: places where a test can kill a process. FAIL_POINT("name") compiles to nothing in
 * ordinary builds. In builds with `make FAULT=1` it counts its passes, and acts by the environment:
 *
 *   PS_FAIL=name:n[:kill|stop|exit|error][,...]   at the n-th pass (from 1)
 *   PS_FAIL=random:P:SEED                         at each pass with probability P
 *
 * kill (the default, and the action of random) sends SIGKILL to itself, stop SIGSTOP; exit calls
 * _exit(1). error is only for FAIL_ERROR, which is used in functions that return an enum err_code:
 * it returns ERR_FAILED then, else ERR_OK. A wrong PS_FAIL ends the process with a line on stderr.
 * The names are in fail.def. Any thread may pass one. */
#ifdef PS_FAULT
#include "core/err.h"

/* Counts a pass of the failpoint and acts; use the macros. */
enum err_code fail_pass(const char *name, struct err *e);

#define FAIL_POINT(name)    ((void)fail_pass(name, NULL))
#define FAIL_ERROR(name, e) fail_pass(name, e)
#else
#define FAIL_POINT(name)    ((void)0)
#define FAIL_ERROR(name, e) ERR_OK
#endif

#endif
