/* SPDX-License-Identifier: ISC */
#include "meeting.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "far.h"
#include "parts.h"

/* The directory is polled: inotify does not report files that another host creates. */
#define PACE_MIN_MS 20
#define PACE_MAX_MS 500
#define OVER        "over"
#define OVER_MAX    1000

char *meeting_path(const char *dir, const char *run_id)
{
	return mem_printf("%s/launch/%s", dir, run_id);
}

enum err_code meeting_create(struct runner *r, struct err *e)
{
	file_remove_tree(r->meeting, NULL);
	return file_mkdirs(r->meeting, 0700, e);
}

bool meeting_expects(const struct runner *r, const char *id)
{
	return r->meeting && strcmp(id, "server-0") != 0 && strcmp(id, "coordinator") != 0;
}

static char *make_join_path(const char *meeting, const char *id)
{
	return mem_printf("%s/%s.join", meeting, id);
}

enum err_code meeting_invite(struct runner *r, const char *id, struct err *e)
{
	char *path = make_join_path(r->meeting, id);
	struct buf line = BUF_INIT;
	enum err_code rc = far_get_join_line(r, id, &line, e);

	if (rc == ERR_OK)
		rc = file_replace(path, line.data, line.len, 0600, e);
	far_wipe_join_line(&line);
	free(path);
	return rc;
}

void meeting_close(struct runner *r, const char *why)
{
	char *path = mem_printf("%s/" OVER, r->meeting);

	file_remove_tree(r->meeting, NULL);
	if (file_mkdirs(r->meeting, 0700, NULL) == ERR_OK)
		file_replace(path, why, strlen(why), 0600, NULL);
	free(path);
}

/* Is the run over?  Then e has the reason. */
static bool is_meeting_over(const char *meeting, struct err *e)
{
	char *path = mem_printf("%s/" OVER, meeting);
	struct buf why = BUF_INIT;
	bool over = access(path, F_OK) == 0;

	if (over && file_read(path, OVER_MAX, &why, NULL) == ERR_OK)
		err_set(e, ERR_FAILED, "the run is over: %s", why.len ? (char *)why.data : "");
	else if (over)
		err_set(e, ERR_FAILED, "the run is over");
	buf_release(&why);
	free(path);
	return over;
}

enum err_code meeting_await_join(const char *meeting, const char *id, int64_t timeout, char **join,
    struct err *e)
{
	int64_t end = clock_now() + timeout;
	enum err_code rc = ERR_OK;
	int pace = PACE_MIN_MS;

	*join = make_join_path(meeting, id);
	while (rc == ERR_OK && access(*join, R_OK) != 0) {
		if (is_meeting_over(meeting, e))
			rc = ERR_FAILED;
		else if (clock_now() >= end)
			rc = err_set(e, ERR_TIMEOUT,
			    "rank 0 has left no %s after %.0f s: is it running, with the same --run-id, and does this "
			    "host see the same directory?",
			    *join, (double)timeout / NSEC_PER_SEC);
		else
			poll(NULL, 0, pace);
		pace = pace * 2 < PACE_MAX_MS ? pace * 2 : PACE_MAX_MS;
	}
	if (rc != ERR_OK) {
		free(*join);
		*join = NULL;
	}
	return rc;
}
