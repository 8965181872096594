/* SPDX-License-Identifier: ISC */
#include "core/thread.h"

#include <errno.h>

enum err_code thread_start(pthread_t *out, void *(*run)(void *ctx), void *ctx, struct err *e)
{
	/* pthread_create does not set errno. */
	int why = pthread_create(out, NULL, run, ctx);

	if (!why)
		return ERR_OK;
	errno = why;
	return err_sys(e, ERR_IO, "cannot start a thread");
}
