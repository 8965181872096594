/* SPDX-License-Identifier: ISC */
#include "coordinator/upload.h"

#include <string.h>

#include "coordinator/checkpoint_schedule.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/helper.h"
#include "core/thread.h"
#include "msg/cluster_status.h"

#define LINE_MAX_BYTES 65536u

struct offsite {
	struct coordinator *coordinator;
	pthread_t thread;
	bool started, stop;
	char *timeout;              /* the deadline, as an option's text */
	int64_t deadline, again_at; /* when to retry after a failure; 0: never */
	uint64_t seen;         /* value of checkpoint_schedule_figures.made at the last upload */
	struct helper *helper; /* running ps-ctl, or NULL; covered by the coordinator's lock */
	bool failing;          /* the last upload failed, and an event said so */
};

/* Record an event for each whole line. */
static void report_stored_lines(struct offsite *o, struct buf *text)
{
	char *end;

	while (text->len > 0 && (end = memchr(text->data, '\n', text->len)) != NULL) {
		size_t n = (size_t)(end - (char *)text->data);
		json_t *line = json_parse((char *)text->data, n, LINE_MAX_BYTES, NULL);
		struct cluster_stored stored;

		coordinator_lock(o->coordinator);
		if (!cluster_stored_decode(line, &stored, NULL))
			coordinator_event(o->coordinator, EVENT_checkpoint_stored,
			    "checkpoint of step %lld: %s", (long long)stored.step, stored.path);
		coordinator_commit_unlock(o->coordinator);
		json_decref(line);
		buf_consume(text, n + 1);
	}
}

static enum err_code read_helper_output(struct offsite *o, struct helper *h, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc;
	size_t got;

	do {
		rc = helper_read(h, buf_reserve(&text, 4096), 4096, &got, e);
		buf_commit(&text, got);
		report_stored_lines(o, &text);
	} while (!rc && got > 0);
	buf_release(&text);
	return rc;
}

/* Called without the coordinator's lock. */
static enum err_code push_checkpoints(struct offsite *o, struct err *e)
{
	const char *args[] = { "-C", o->coordinator->server->cfg.id->run_dir, "checkpoint", "push",
		"--json", "--timeout", o->timeout, NULL };
	struct helper *h;
	enum err_code rc = helper_start(args, NULL, &h, e), end;

	if (rc)
		return rc;
	coordinator_lock(o->coordinator);
	o->helper = h;
	if (o->stop)
		helper_stop(h);
	coordinator_commit_unlock(o->coordinator);
	rc = read_helper_output(o, h, e);
	coordinator_lock(o->coordinator);
	o->helper = NULL;
	coordinator_commit_unlock(o->coordinator);
	end = helper_end(h, rc ? NULL : e);
	return rc ? rc : end;
}

static void *run_upload_thread(void *ctx)
{
	struct offsite *o = ctx;
	struct coordinator *coordinator = o->coordinator;
	struct err e;

	coordinator_lock(coordinator);
	while (!o->stop) {
		struct checkpoint_schedule_figures f = checkpoint_schedule_figures(
		    coordinator->checkpoints);
		enum err_code rc;

		if (f.made == o->seen && !(o->again_at && clock_now() >= o->again_at)) {
			coordinator_wait(coordinator, o->again_at);
			continue;
		}
		o->seen = f.made;
		o->again_at = 0;
		coordinator_commit_unlock(coordinator);
		rc = push_checkpoints(o, &e);
		coordinator_lock(coordinator);
		if (o->stop)
			break;
		if (rc)
			o->again_at = clock_now() + o->deadline;
		/* Only the first of several failures in a row is an event; the log has them all. */
		if (rc && o->failing)
			log_warn(coordinator->server->cfg.log, "checkpoints are not uploaded: %s",
			    e.msg);
		else if (rc)
			coordinator_event(coordinator, EVENT_checkpoint_not_stored,
			    "checkpoints are kept only on this host: %s", e.msg);
		o->failing = rc != ERR_OK;
	}
	coordinator_commit_unlock(coordinator);
	return NULL;
}

enum err_code upload_start(struct coordinator *coordinator, const struct conf *c, struct err *e)
{
	struct offsite *o;
	enum err_code rc;

	if (!coordinator->checkpoints || !conf_is_named(c->checkpoint_to))
		return ERR_OK;
	o = mem_alloc(sizeof *o);
	o->coordinator = coordinator;
	o->deadline = c->deadline;
	o->timeout = mem_printf("%lldms", (long long)(c->deadline / NSEC_PER_MSEC));
	coordinator_lock(coordinator);
	/* Checkpoints of an earlier coordinator may not have been uploaded yet. */
	o->seen = checkpoint_schedule_figures(coordinator->checkpoints).at ? UINT64_MAX : 0;
	coordinator->offsite = o;
	coordinator_commit_unlock(coordinator);
	rc = thread_start(&o->thread, run_upload_thread, o, e);
	o->started = !rc;
	return rc;
}

void upload_stop(struct coordinator *coordinator)
{
	struct offsite *o = coordinator->offsite;

	if (!o)
		return;
	coordinator_lock(coordinator);
	o->stop = true;
	if (o->helper)
		helper_stop(o->helper);
	coordinator_wake_waiters(coordinator);
	coordinator_commit_unlock(coordinator);
	if (o->started)
		pthread_join(o->thread, NULL);
}

void upload_free(struct offsite *o)
{
	if (!o)
		return;
	free(o->timeout);
	free(o);
}
