/* SPDX-License-Identifier: ISC */
#include "rundir/control.h"

#include <stdlib.h>

#include "rundir/rundir.h"

enum err_code control_connect_until(const char *dir, const atomic_bool *stop,
    struct http_client **client, struct err *e)
{
	char *path = rundir_path(dir, "ctl.sock");
	struct http_target target = { .unix_path = path, .stop = stop };
	enum err_code rc = http_client_new(&target, client, e);

	free(path);
	return rc;
}

enum err_code control_connect(const char *dir, struct http_client **client, struct err *e)
{
	return control_connect_until(dir, NULL, client, e);
}
