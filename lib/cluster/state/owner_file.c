/* SPDX-License-Identifier: ISC */
#include "state/owner_file.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/owner.h"
#include "rundir/rundir.h"
#include "state/owner_process.h"

#define OWNER_MAX 4096u

static char *owner_path(const char *run_dir)
{
	return rundir_path(run_dir, "coordinator.owner");
}

enum err_code owner_file_check_free(const char *run_dir, struct err *e)
{
	char *path = owner_path(run_dir);
	struct err why = { 0 };
	json_t *record = json_parse_file(path, OWNER_MAX, &why);
	struct owner o;
	enum err_code rc = ERR_OK;

	owner_decode(record, &o);
	if (!record && why.code == ERR_IO)
		rc = err_because(e, ERR_IO, why.cause,
		    "%s, so a coordinator may be running already", why.msg);
	else if (owner_lives_here(&o))
		rc = err_set(e, ERR_EXISTS,
		    "a coordinator of %s is already running on this host (pid %lld)", run_dir,
		    (long long)o.pid);
	json_decref(record);
	free(path);
	return rc;
}

enum err_code owner_file_verify(const char *run_dir, uint64_t incarnation, struct err *e)
{
	char *path = owner_path(run_dir);
	json_t *record = json_parse_file(path, OWNER_MAX, e);
	struct owner o;
	enum err_code rc = ERR_OK;

	owner_decode(record, &o);
	if (!record)
		rc = err_set(e, ERR_IO,
		    "cannot read \"%s\", so another coordinator may have taken over", path);
	else if (o.incarnation != incarnation)
		rc = err_set(e, ERR_FENCED,
		    "another coordinator has taken over %s (host %s, pid %lld); this one ends",
		    run_dir, *o.host ? o.host : "?", (long long)o.pid);
	json_decref(record);
	free(path);
	return rc;
}

enum err_code owner_file_take(const char *run_dir, uint64_t incarnation, struct err *e)
{
	json_t *self = owner_describe_self(incarnation);
	char *path = owner_path(run_dir), *text = json_text(self);
	enum err_code rc = file_replace(path, text, strlen(text), 0600, e);

	/* Files that the previous owner is still writing must not appear any more. */
	if (!rc) {
		file_remove_torn(run_dir, "state.json");
		rc = owner_file_verify(run_dir, incarnation, e);
	}
	if (rc == ERR_FENCED)
		rc = e->code = ERR_EXISTS;
	json_decref(self);
	free(text);
	free(path);
	return rc;
}

bool owner_file_read(const char *run_dir, uint64_t *incarnation, bool *died)
{
	char *path = owner_path(run_dir);
	struct err why = { 0 };
	json_t *record = json_parse_file(path, OWNER_MAX, &why);
	struct owner o;

	owner_decode(record, &o);
	*incarnation = record ? o.incarnation : 0;
	*died = record && owner_died_here(&o);
	json_decref(record);
	free(path);
	return record || why.code == ERR_NOTFOUND;
}
