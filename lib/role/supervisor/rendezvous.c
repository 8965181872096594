/* SPDX-License-Identifier: ISC */
#include "supervisor/rendezvous.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/backoff.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "supervisor/remote.h"

/* The directory is polled: inotify does not report files that another host creates. */
#define PACE_MIN (20 * NSEC_PER_MSEC)
#define PACE_MAX (500 * NSEC_PER_MSEC)
#define OVER     "over"
#define OVER_MAX 1000

char *rendezvous_path(const char *dir, const char *run_id)
{
	return mem_printf("%s/launch/%s", dir, run_id);
}

enum err_code rendezvous_create(const char *dir, struct err *e)
{
	file_remove_tree(dir, NULL);
	return file_mkdirs(dir, 0700, e);
}

bool rendezvous_expects(const char *dir, const char *id)
{
	return dir && strcmp(id, "server-0") != 0 && strcmp(id, "coordinator") != 0;
}

static char *make_join_path(const char *dir, const char *id)
{
	return mem_printf("%s/%s.join", dir, id);
}

enum err_code rendezvous_invite(const char *dir, struct http_client *client, const char *id,
    struct err *e)
{
	char *path = make_join_path(dir, id);
	struct buf line = BUF_INIT;
	enum err_code rc = remote_get_join_line(client, id, &line, e);

	if (rc == ERR_OK)
		rc = file_replace(path, line.data, line.len, 0600, e);
	remote_wipe_join_line(&line);
	free(path);
	return rc;
}

void rendezvous_close(const char *dir, const char *why)
{
	char *path = mem_printf("%s/" OVER, dir);

	file_remove_tree(dir, NULL);
	if (file_mkdirs(dir, 0700, NULL) == ERR_OK)
		file_replace(path, why, strlen(why), 0600, NULL);
	free(path);
}

/* Is the run over? Then e has the reason. */
static bool is_run_over(const char *dir, struct err *e)
{
	char *path = mem_printf("%s/" OVER, dir);
	struct buf why = BUF_INIT;
	bool over = access(path, F_OK) == 0;

	if (over && file_read(path, OVER_MAX, &why, NULL) == ERR_OK)
		err_set(e, ERR_FAILED, "the run has ended: %s", why.len ? (char *)why.data : "");
	else if (over)
		err_set(e, ERR_FAILED, "the run has ended");
	buf_release(&why);
	free(path);
	return over;
}

enum err_code rendezvous_await_join(const char *dir, const char *id, int64_t timeout, char **join,
    struct err *e)
{
	struct backoff pace = { .least = PACE_MIN, .most = PACE_MAX };
	int64_t end = clock_now() + timeout;
	enum err_code rc = ERR_OK;

	backoff_reset(&pace);
	*join = make_join_path(dir, id);
	while (rc == ERR_OK && access(*join, R_OK) != 0) {
		if (is_run_over(dir, e))
			rc = ERR_FAILED;
		else if (clock_now() >= end)
			rc = err_set(e, ERR_TIMEOUT,
			    "rank 0 has not written %s within %.0f s: check that it runs with "
			    "the same --run-id and that this host sees the same directory",
			    *join, (double)timeout / NSEC_PER_SEC);
		else
			clock_sleep(clock_poll_timeout(backoff_next(&pace)));
	}
	if (rc != ERR_OK) {
		free(*join);
		*join = NULL;
	}
	return rc;
}
