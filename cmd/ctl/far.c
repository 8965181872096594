/* SPDX-License-Identifier: ISC */
#include "far.h"

#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "parts.h"
#include "rundir/rundir.h"
#include "supervisor/rsh.h"

const char *far_host(const struct runner *r, const char *id)
{
	bool server = strncmp(id, "server-", 7) == 0;
	const char *host;
	int64_t k;

	if (!r->hosts.n || (!server && strncmp(id, "worker-", 7) != 0) ||
	    !num_int(id + 7, 0, 65535, &k))
		return NULL;
	host = hosts_nth(&r->hosts, (size_t)(server ? k : r->conf->servers + k));
	return !host || hosts_is_here(host) ? NULL : host;
}

bool far_has_no_slot(const struct runner *r, const char *id)
{
	bool server = strncmp(id, "server-", 7) == 0;
	int64_t k;

	if (!r->hosts.n || (!server && strncmp(id, "worker-", 7) != 0) ||
	    !num_int(id + 7, 0, 65535, &k))
		return false;
	return !hosts_nth(&r->hosts, (size_t)(server ? k : r->conf->servers + k));
}

enum err_code far_get_join_line(struct runner *r, const char *id, struct buf *line, struct err *e)
{
	json_t *body = json_pack("{s:s}", "kept", id), *join = NULL;
	enum err_code rc = http_call(r->client, "POST", "/v1/invite", body, RUNNER_ASK, NULL, &join,
	    e);
	char *text;

	if (rc == ERR_OK) {
		text = json_text(join);
		buf_printf(line, "%s\n", text);
		sodium_memzero(text, strlen(text));
		free(text);
	}
	json_decref(join);
	json_decref(body);
	return rc;
}

static enum err_code send_join_line(struct runner *r, size_t child, const struct buf *line,
    struct err *e)
{
	return launch_tell(r->set, child, line->data, line->len, e);
}

void far_wipe_join_line(struct buf *line)
{
	if (line->data)
		sodium_memzero(line->data, line->cap);
	buf_release(line);
}

/* Build the remote command line.  A worker is killed when its session is cut (remote.c tells
 * why). */
static void compose_remote_command(const struct runner *r, const char *dir, const char *id,
    const char *const *words, struct buf *command)
{
	const char *args[24];
	size_t n = 0;

	if (dir) {
		args[n++] = "--dir";
		args[n++] = dir;
	}
	if (strncmp(id, "worker-", 7) == 0)
		args[n++] = "--kill-if-cut";
	args[n++] = id;
	args[n++] = "--";
	while (*words && n + 1 < CTL_COUNT(args))
		args[n++] = *words++;
	args[n] = NULL;
	rsh_command(r->bin, args, command);
}

/* Stat the file of the pre-shared key. */
static bool stat_psk_file(const struct runner *r, struct stat *out)
{
	char *path = rundir_path(r->dir, "keys/psk");
	bool there = stat(path, out) == 0;

	free(path);
	return there;
}

enum err_code far_spawn(struct runner *r, const char *host, const char *dir, const char *id,
    const char *const *words, size_t *child, struct err *e)
{
	struct buf line = BUF_INIT, command = BUF_INIT;
	char *log = mem_printf("%s/%s.log", r->dir, id);
	const char *argv[RSH_ARGV];
	struct launch_spec spec = { .id = id,
		.argv = (char *const *)argv,
		.log_path = log,
		.die_with_parent = true,
		.line = true };
	enum err_code rc;

	/* Remember which key the first process gets: a change between now and the first
	 * far_send_new_key must not be missed. */
	if (!r->psk.st_ino)
		stat_psk_file(r, &r->psk);
	rc = far_get_join_line(r, id, &line, e);
	if (rc == ERR_OK) {
		compose_remote_command(r, dir, id, words, &command);
		rsh_argv(host, (const char *)command.data, argv);
		rc = launch_start(r->set, &spec, child, e);
	}
	if (rc == ERR_OK)
		rc = send_join_line(r, *child, &line, e);
	/* When the remote shell has already ended, runner_reap_children handles that. */
	if (rc == ERR_CLOSED)
		rc = ERR_OK;
	far_wipe_join_line(&line);
	buf_release(&command);
	free(log);
	return rc;
}

int far_translate_end(const struct runner *r, const char *host, struct launch_event *ev, char *how,
    size_t size)
{
	char words[64];

	if (!ev->signalled && ev->status == RSH_NO_SESSION) {
		snprintf(how, size, "on %s has %s session", host,
		    runner_is_forming(r) ? "no" : "lost its");
		/* A new session may work: count this as a kill, so that the process is
		 * restarted. */
		ev->signalled = !runner_is_forming(r);
		return err_exit_code(ERR_UNREACH);
	}
	if (!ev->signalled && ev->status > 128 && ev->status < 128 + NSIG) {
		ev->signalled = true;
		ev->status -= 128;
	}
	launch_how(ev, words);
	snprintf(how, size, "on %s %s", host, words);
	return !ev->signalled && ev->status == RSH_NO_PROGRAM ? err_exit_code(ERR_NOTFOUND)
	                                                      : ev->status;
}

/* Has the key's file changed since the last call?  A change counts only after a second, when the
 * coordinator has read the file, too. */
static bool has_psk_changed(struct runner *r)
{
	struct stat now;
	bool changed;

	if (!stat_psk_file(r, &now) || now.st_mtim.tv_sec + 1 >= clock_wall() / NSEC_PER_SEC)
		return false;
	changed = now.st_ino != r->psk.st_ino || now.st_mtim.tv_sec != r->psk.st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != r->psk.st_mtim.tv_nsec;
	r->psk = now;
	return changed;
}

void far_send_new_key(struct runner *r)
{
	if (!r->hosts.n || !has_psk_changed(r))
		return;
	for (size_t i = 0; i < launch_count(r->set); i++) {
		const char *id = launch_id(r->set, i);
		struct buf line = BUF_INIT;
		struct err e;

		if (!launch_alive(r->set, i) || !far_host(r, id))
			continue;
		if (far_get_join_line(r, id, &line, &e) != ERR_OK ||
		    send_join_line(r, i, &line, &e) != ERR_OK)
			progress_say(&r->progress, "%s is not given the new secret: %s", id, e.msg);
		far_wipe_join_line(&line);
	}
}
