/* SPDX-License-Identifier: ISC */
#include "supervisor/progress.h"

#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/num.h"
#include "core/plain.h"
#include "msg/cluster_status.h"
#include "rundir/learning.h"
#include "rundir/rundir.h"

/* When a wait is first reported, and the intervals between reports, on a terminal and elsewhere. */
#define FIRST     (2 * NSEC_PER_SEC)
#define EVERY     (10 * NSEC_PER_SEC)
#define TTY_EVERY (100 * NSEC_PER_MSEC)
/* After such a wait the run directory is examined for faults. */
#define LONG (5 * NSEC_PER_SEC)
/* A longer log, in bytes, is not that of a worker that has just begun. */
#define LOG_MOST (1u << 20)

void progress_init(struct progress *p, struct log *log)
{
	const char *term = getenv("TERM");

	*p = (struct progress){ .log = log, .begun = clock_now() };
	p->tty = !log && isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
	p->next = p->begun + FIRST;
	p->waiting = true;
}

void progress_explain_waits(struct progress *p, const char *dir, progress_explain_fn *explain)
{
	p->dir = p->logs = dir;
	p->explain = explain;
}

void progress_clear_line(struct progress *p)
{
	if (p->dirty)
		fputs("\r\033[K", stderr);
	p->dirty = false;
}

void progress_say(struct progress *p, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	plain_text(text);
	progress_clear_line(p);
	if (p->log)
		log_info(p->log, "%s", text);
	else
		fprintf(stderr, "%s\n", text);
}

/* Append the remaining time, extrapolated from the mean speed so far. */
static void put_eta(double seconds, double done, double total, struct buf *out)
{
	double left = done > 0 ? seconds / done * (total - done) : 0;

	if (done <= 0 || done >= total || left <= 0)
		return;
	if (left < 100)
		buf_printf(out, "  eta %.0fs", left);
	else if (left < 6000)
		buf_printf(out, "  eta %dm%02ds", (int)left / 60, (int)left % 60);
	else
		buf_printf(out, "  eta %dh%02dm", (int)(left / 3600), (int)(left / 60) % 60);
}

/* Append how much of the data in blocks is done, of `all` bytes (0: without end), and the examples of an
 * epoch when they are known. */
static void put_data(const struct cluster_status *status, double all, struct buf *out)
{
	double done = (double)status->data_done_bytes, examples = (double)status->epoch_examples;
	char text[16], whole[16];

	if (!status->data_bytes)
		return;
	num_count(done, text);
	num_count(all, whole);
	if (all > 0)
		buf_printf(out, "  data %sB/%sB [%d%%]", text, whole, (int)(100 * done / all));
	else
		buf_printf(out, "  data %sB", text);
	if (examples <= 0)
		return;
	num_count(examples * done / (double)status->data_bytes, text);
	num_count(examples * (double)status->data_epochs, whole);
	if (all > 0)
		buf_printf(out, "  examples %s/%s", text, whole);
	else
		buf_printf(out, "  examples %s", text);
}

/* Append the progress of a job: step, loss, speed and remaining time. */
static void put_steps(const struct cluster_status *status, struct buf *out)
{
	int64_t step = status->step, total = status->steps_total;
	/* of data in blocks: bytes of all epochs */
	double data = (double)status->data_bytes * (double)status->data_epochs;
	char text[16], figure[32];

	buf_printf(out, "step %lld", (long long)step);
	if (total > 0)
		buf_printf(out, "/%lld [%d%%]", (long long)total,
		    (int)(100.0 * (double)(step < total ? step : total) / (double)total));
	else
		put_data(status, data, out);
	if (!isnan(status->train_loss)) {
		num_digits(status->train_loss, 4, figure);
		buf_printf(out, " train loss %s", figure);
	}
	if (json_is_object(status->best_eval)) {
		buf_puts(out, "  eval ");
		learning_put_best(status->best_eval, out);
	}
	if (status->examples_per_second > 0) {
		num_count(status->examples_per_second, text);
		buf_printf(out, "  %s ex/s", text);
	}
	if (total > 0 && !isnan(status->seconds))
		put_eta(status->seconds, (double)step, (double)total, out);
	else if (data > 0 && !isnan(status->seconds))
		put_eta(status->seconds, (double)status->data_done_bytes, data, out);
}

/* Write a report to out: what the cluster waits for and how long already (then true), or the steps
 * of a job that trains. out stays empty when there is nothing to report. */
static bool describe_status(struct progress *p, const struct cluster_status *status, int64_t now,
    struct buf *out)
{
	const char *what = status ? status->waiting_for : "server-0 to answer";
	bool finishing;

	if (*what) {
		buf_printf(out, "waiting for %s (%.0f s)%s%s", what,
		    (double)(now - p->begun) / NSEC_PER_SEC, p->trouble[0] ? ": " : "", p->trouble);
		return true;
	}
	p->begun = now;
	if (p->trouble[0])
		buf_printf(out, "%s; ", p->trouble);
	finishing = status->state == PHASE_FINISHING;
	if (status->workers_wanted > 0 && (finishing || status->state == PHASE_RUNNING))
		put_steps(status, out);
	if (finishing)
		buf_puts(out, "  finishing");
	return false;
}

/* Rewrite the terminal's line, cut to its width: a line that wraps could not be rewritten. */
static void rewrite_line(struct progress *p, char *text)
{
	struct winsize w = { 0 };
	int cols = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1 : 79;

	plain_text(text);
	fprintf(stderr, "\r\033[K%.*s", cols, text);
	fflush(stderr);
	p->dirty = true;
}

void progress_read_trouble(struct progress *p, const char *dir)
{
	struct rundir_retry f;

	p->trouble[0] = 0;
	if (rundir_read_retry(dir, &f))
		snprintf(p->trouble, sizeof p->trouble, "cannot start %s: %s", f.id, f.error);
}

/* The level and the beginning of the text of such a warning, as log.c writes it after the time. */
#define DATA_WARNING " worker-0 warn data: "

/* All workers have the same data to warn of. worker-0 has read its data before the job begins. */
void progress_tell_data(struct progress *p)
{
	char *path, *line, *rest;
	struct buf text = BUF_INIT;

	if (!p->logs)
		return;
	path = rundir_path(p->logs, "worker-0.log");
	p->logs = NULL;
	if (file_read(path, LOG_MOST, &text, NULL) == ERR_OK) {
		buf_append(&text, "", 1);
		for (line = strtok_r((char *)text.data, "\n", &rest); line;
		     line = strtok_r(NULL, "\n", &rest)) {
			const char *at = strchr(line, ' ');

			if (at && strncmp(at, DATA_WARNING, strlen(DATA_WARNING)) == 0)
				progress_say(p, "warning: %s", at + strlen(DATA_WARNING));
		}
	}
	buf_release(&text);
	free(path);
}

void progress_tell_job(struct progress *p, const struct cluster_status *status)
{
	if (p->job_told || !status || !*status->job)
		return;
	progress_say(p, "job: %s", status->job);
	p->job_told = true;
}

void progress_show(struct progress *p, const struct cluster_status *status)
{
	struct buf text = BUF_INIT;
	int64_t now = clock_now();
	bool waits = describe_status(p, status, now, &text);

	progress_tell_job(p, status);
	if (!waits)
		progress_tell_data(p);
	if (waits && p->dir && now - p->begun > LONG) {
		const char *dir = p->dir;

		p->dir = NULL;
		p->explain(dir, p);
	}
	if (waits && !p->waiting)
		p->next = now + FIRST;
	if (!waits && p->waiting)
		p->next = now + (p->tty ? 0 : EVERY);
	p->waiting = waits;
	if (text.len > 0 && now >= p->next) {
		if (p->tty)
			rewrite_line(p, (char *)text.data);
		else
			progress_say(p, "%s", (char *)text.data);
		p->next = now + (p->tty ? TTY_EVERY : EVERY);
	}
	buf_release(&text);
}
