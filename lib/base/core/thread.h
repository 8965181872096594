/* SPDX-License-Identifier: ISC */
#ifndef CORE_THREAD_H
#define CORE_THREAD_H

#include <pthread.h>

#include "core/err.h"

/* Starts a thread that runs run(ctx), with the signal mask of the caller. The caller joins it. ERR_IO: the
 * system has no memory for its stack, or too many threads; *out is then undefined. Any thread. */
enum err_code thread_start(pthread_t *out, void *(*run)(void *ctx), void *ctx, struct err *e);

#endif
