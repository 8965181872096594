/* SPDX-License-Identifier: ISC */
#include "supervisor/remote.h"

#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "rundir/rundir.h"
#include "supervisor/rsh.h"

const char *remote_host(const struct supervisor *s, const char *id)
{
	bool server = strncmp(id, "server-", 7) == 0;
	const char *host;
	int64_t k;

	if (!s->hosts.n || (!server && strncmp(id, "worker-", 7) != 0) ||
	    !num_int(id + 7, 0, 65535, &k))
		return NULL;
	host = hosts_nth(&s->hosts, (size_t)(server ? k : s->conf->servers + k));
	return !host || hosts_is_here(host) ? NULL : host;
}

bool remote_has_slot(const struct supervisor *s, const char *id)
{
	bool server = strncmp(id, "server-", 7) == 0;
	int64_t k;

	if (!s->hosts.n || (!server && strncmp(id, "worker-", 7) != 0) ||
	    !num_int(id + 7, 0, 65535, &k))
		return true;
	return hosts_nth(&s->hosts, (size_t)(server ? k : s->conf->servers + k));
}

enum err_code remote_get_join_line(struct http_client *client, const char *id, struct buf *line,
    struct err *e)
{
	json_t *body = json_pack("{s:s}", "kept", id), *join = NULL;
	enum err_code rc = http_call(client, "POST", "/v1/invite", body, SUPERVISOR_ASK, NULL,
	    &join, e);
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

static enum err_code send_join_line(struct supervisor *s, size_t child, const struct buf *line,
    struct err *e)
{
	return launch_tell(s->set, child, line->data, line->len, e);
}

void remote_wipe_join_line(struct buf *line)
{
	if (line->data)
		sodium_memzero(line->data, line->cap);
	buf_release(line);
}

/* Build the remote command line. A worker is killed when its session is cut (cmd/ctl/remote.c tells
 * why). */
static void compose_remote_command(const struct supervisor *s, const char *dir, const char *id,
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
	while (*words && n + 1 < sizeof args / sizeof *args)
		args[n++] = *words++;
	args[n] = NULL;
	rsh_command(s->bin, args, command);
}

/* Stat the file of the pre-shared key. */
static bool stat_psk_file(const struct supervisor *s, struct stat *out)
{
	char *path = rundir_path(s->dir, "keys/psk");
	bool there = stat(path, out) == 0;

	free(path);
	return there;
}

enum err_code remote_start(struct supervisor *s, const char *host, const char *dir, const char *id,
    const char *const *words, size_t *child, struct err *e)
{
	struct buf line = BUF_INIT, command = BUF_INIT;
	char *log = mem_printf("%s/%s.log", s->dir, id);
	const char *argv[RSH_ARGV];
	struct launch_spec spec = { .id = id,
		.argv = (char *const *)argv,
		.log_path = log,
		.die_with_parent = true,
		.line = true };
	enum err_code rc;

	/* Remember which key the first process gets: a change between now and the first
	 * remote_send_new_key must not be missed. */
	if (!s->psk.st_ino)
		stat_psk_file(s, &s->psk);
	rc = remote_get_join_line(s->client, id, &line, e);
	if (rc == ERR_OK) {
		compose_remote_command(s, dir, id, words, &command);
		rsh_argv(host, (const char *)command.data, argv);
		rc = launch_start(s->set, &spec, child, e);
	}
	if (rc == ERR_OK)
		rc = send_join_line(s, *child, &line, e);
	/* When the remote shell has already ended, the supervisor handles that when it reaps its children. */
	if (rc == ERR_CLOSED)
		rc = ERR_OK;
	remote_wipe_join_line(&line);
	buf_release(&command);
	free(log);
	return rc;
}

enum policy_end remote_translate_end(const char *host, bool forming, struct launch_event *ev,
    char *how, size_t size, int *code)
{
	char words[64];

	if (!ev->signalled && ev->status == RSH_NO_SESSION) {
		snprintf(how, size, "on %s has %s session", host, forming ? "no" : "lost its");
		*code = err_exit_code(ERR_UNREACH);
		return POLICY_CUT;
	}
	if (!ev->signalled && ev->status > 128 && ev->status < 128 + NSIG) {
		ev->signalled = true;
		ev->status -= 128;
	}
	launch_how(ev, words);
	snprintf(how, size, "on %s %s", host, words);
	*code = !ev->signalled && ev->status == RSH_NO_PROGRAM ? err_exit_code(ERR_NOTFOUND)
	                                                       : ev->status;
	return ev->signalled ? POLICY_KILLED : ev->status ? POLICY_EXITED : POLICY_LEFT;
}

/* Has the key's file changed since the last call? A change counts only after a second, when the
 * coordinator has read the file, too. */
static bool has_psk_changed(struct supervisor *s)
{
	struct stat now;
	bool changed;

	if (!stat_psk_file(s, &now) || now.st_mtim.tv_sec + 1 >= clock_wall() / NSEC_PER_SEC)
		return false;
	changed = now.st_ino != s->psk.st_ino || now.st_mtim.tv_sec != s->psk.st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != s->psk.st_mtim.tv_nsec;
	s->psk = now;
	return changed;
}

void remote_send_new_key(struct supervisor *s)
{
	if (!s->hosts.n || !has_psk_changed(s))
		return;
	for (size_t i = 0; i < launch_count(s->set); i++) {
		const char *id = launch_id(s->set, i);
		struct buf line = BUF_INIT;
		struct err e;

		if (!launch_alive(s->set, i) || !remote_host(s, id))
			continue;
		if (remote_get_join_line(s->client, id, &line, &e) != ERR_OK ||
		    send_join_line(s, i, &line, &e) != ERR_OK)
			progress_say(&s->progress, "cannot send the new secret to %s: %s", id,
			    e.msg);
		remote_wipe_join_line(&line);
	}
}
