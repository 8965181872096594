/* SPDX-License-Identifier: ISC */
#include "coordinator/owner_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/owner.h"
#include "rundir/rundir.h"
#include "server/server_state.h"

#define OWNER_MAX 4096u

static char *owner_path(const struct server *s)
{
	return rundir_path(s->cfg.id->run_dir, "coordinator.owner");
}

/* ---- identity of a process ---- */

static void read_boot_id(char out[static 64])
{
	struct buf b = BUF_INIT;

	out[0] = '\0';
	if (file_read("/proc/sys/kernel/random/boot_id", 63, &b, NULL) == ERR_OK)
		snprintf(out, 64, "%.*s", (int)strcspn((const char *)b.data, "\n"),
		    (const char *)b.data);
	buf_release(&b);
}

/* Process ids mean nothing in another namespace of the same host. */
static void read_pid_namespace(char out[static 64])
{
	ssize_t n = readlink("/proc/self/ns/pid", out, 63);

	out[n < 0 ? 0 : n] = '\0';
}

/* When a process began, in ticks since boot: with its pid and the boot id it is unique. 0: there
 * is no such process, or it has ended and only waits for its parent. */
static uint64_t read_start_time(int64_t pid)
{
	char *path = mem_printf("/proc/%lld/stat", (long long)pid);
	const char *at = NULL;
	struct buf b = BUF_INIT;
	uint64_t ticks = 0;
	char state = 'Z';

	if (file_read(path, 4096, &b, NULL) == ERR_OK)
		at = strrchr((const char *)b.data, ')');
	/* The process name may contain anything; the state is field 3 and the start time is
	 * field 22. */
	if (at &&
	    sscanf(at,
	        ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64,
	        &state, &ticks) != 2)
		ticks = 0;
	buf_release(&b);
	free(path);
	return state == 'Z' || state == 'X' ? 0 : ticks;
}

static json_t *describe_self(const struct server *s)
{
	char host[64] = "", boot[64], namespace[64];

	gethostname(host, sizeof host - 1);
	read_boot_id(boot);
	read_pid_namespace(namespace);
	return owner_encode(&(const struct owner){ .incarnation = s->incarnation,
	    .host = host,
	    .boot_id = boot,
	    .pid_namespace = namespace,
	    .pid = getpid(),
	    .started = read_start_time(getpid()) });
}

static bool lives_here(const struct owner *o)
{
	char boot[64], namespace[64];

	read_boot_id(boot);
	read_pid_namespace(namespace);
	return boot[0] && strcmp(o->boot_id, boot) == 0 && namespace[0] &&
	    strcmp(o->pid_namespace, namespace) == 0 && o->pid > 0 && o->pid != getpid() &&
	    o->started && read_start_time(o->pid) == o->started;
}

/* ---- the record ---- */

enum err_code owner_file_check_free(const struct server *s, struct err *e)
{
	char *path = owner_path(s);
	json_t *record = json_parse_file(path, OWNER_MAX, NULL);
	struct owner o;
	enum err_code rc = ERR_OK;

	owner_decode(record, &o);
	if (lives_here(&o))
		rc = err_set(e, ERR_EXISTS,
		    "a coordinator of %s is already running on this host (pid %lld)",
		    s->cfg.id->run_dir, (long long)o.pid);
	json_decref(record);
	free(path);
	return rc;
}

enum err_code owner_file_verify(const struct server *s, struct err *e)
{
	char *path = owner_path(s);
	json_t *record = json_parse_file(path, OWNER_MAX, e);
	struct owner o;
	enum err_code rc = ERR_OK;

	owner_decode(record, &o);
	if (!record)
		rc = err_set(e, ERR_IO,
		    "cannot read \"%s\", so another coordinator may have taken over", path);
	else if (o.incarnation != s->incarnation)
		rc = err_set(e, ERR_FENCED,
		    "another coordinator has taken over %s (host %s, pid %lld); this one ends",
		    s->cfg.id->run_dir, *o.host ? o.host : "?", (long long)o.pid);
	json_decref(record);
	free(path);
	return rc;
}

enum err_code owner_file_take(const struct server *s, struct err *e)
{
	json_t *self = describe_self(s);
	char *path = owner_path(s), *text = json_text(self);
	enum err_code rc = file_replace(path, text, strlen(text), 0600, e);

	/* Files that the previous owner is still writing must not appear any more. */
	if (!rc) {
		file_remove_torn(s->cfg.id->run_dir, "state.json");
		rc = owner_file_verify(s, e);
	}
	if (rc == ERR_FENCED)
		rc = e->code = ERR_EXISTS;
	json_decref(self);
	free(text);
	free(path);
	return rc;
}
