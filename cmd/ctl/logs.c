/* SPDX-License-Identifier: ISC */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/launch.h"
#include "core/mem.h"
#include "ctl.h"
#include "rundir/rundir.h"

#define PACE_MS 100
#define CHUNK   65536

struct options {
	char **ids; /* of the processes to show; none: all */
	int nids;
	const char *dir;
	bool follow;
	int64_t lines;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "follow", 'f', OPT_FLAG, offsetof(struct options, follow), NULL,
	    "show new lines until the cluster ends", NULL, 0, 0 },
	{ "lines", 'n', OPT_INT, offsetof(struct options, lines), "LINES",
	    "show only the last LINES of each log", NULL, 0, 1e9 },
};

/* The log of one process. text has what was read; its first `shown` bytes have been printed or
 * skipped. */
struct source {
	char *id;
	int fd;
	struct buf text;
	size_t shown;
};

struct sources {
	struct source *item;
	size_t n;
};

static int compare_source_ids(const void *a, const void *b)
{
	return strcmp(((const struct source *)a)->id, ((const struct source *)b)->id);
}

static bool is_log_open(const struct sources *s, const char *id)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->item[i].id, id) == 0)
			return true;
	return false;
}

/* Opens the logs of these processes that are not open yet; without ids, all logs. */
static void open_logs(struct sources *s, const char *dir, char **ids, int nids)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)) != NULL) {
		size_t len = strlen(entry->d_name);
		bool wanted = nids == 0;
		char *id, *path;
		int fd;

		if (len < 5 || strcmp(entry->d_name + len - 4, ".log") != 0)
			continue;
		id = mem_printf("%.*s", (int)len - 4, entry->d_name);
		for (int i = 0; i < nids; i++)
			wanted = wanted || strcmp(ids[i], id) == 0;
		path = rundir_path(dir, entry->d_name);
		fd = wanted && !is_log_open(s, id) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		free(path);
		if (fd < 0) {
			free(id);
			continue;
		}
		s->item = mem_regrow(s->item, s->n + 1, sizeof *s->item);
		s->item[s->n++] = (struct source){ .id = id, .fd = fd };
	}
	if (d)
		closedir(d);
	if (s->n > 1)
		qsort(s->item, s->n, sizeof *s->item, compare_source_ids);
}

static void read_log_tail(struct source *s)
{
	ssize_t n;

	buf_consume(&s->text, s->shown);
	s->shown = 0;
	while ((n = read(s->fd, buf_reserve(&s->text, CHUNK), CHUNK)) > 0)
		buf_commit(&s->text, (size_t)n);
}

/* Skips to the last n lines. */
static void skip_to_last_lines(struct source *s, int64_t n)
{
	size_t at = s->text.len;

	/* A last line without a newline counts as a line. */
	if (at > 0 && s->text.data[at - 1] == '\n')
		at--;
	for (int64_t left = n; at > 0 && left > 0; left--)
		for (at--; at > 0 && s->text.data[at] != '\n';)
			at--;
	s->shown = n == 0 ? s->text.len : at > 0 ? at + 1 : 0;
}

/* Finds the length of the next line, without its newline. With `rest`, a last line without newline
 * counts, too. */
static bool find_next_line(const struct source *s, bool rest, size_t *len)
{
	const char *p = (const char *)s->text.data + s->shown;
	size_t n = s->text.len - s->shown;
	const char *end = n ? memchr(p, '\n', n) : NULL;

	*len = end ? (size_t)(end - p) : n;
	return end || (rest && n > 0);
}

/* True when a line begins with a time stamp, whose form sorts as text. A line without one belongs
 * to the line before it. */
static bool is_stamped_line(const char *p, size_t n)
{
	return n >= 20 && p[4] == '-' && p[7] == '-' && p[10] == 'T';
}

static bool is_earlier_line(const struct source *a, size_t na, const struct source *b, size_t nb)
{
	const char *p = (const char *)a->text.data + a->shown;
	const char *q = (const char *)b->text.data + b->shown;

	if (!is_stamped_line(p, na))
		return true;
	if (!is_stamped_line(q, nb))
		return false;
	return memcmp(p, q, 20 < na && 20 < nb ? 23 : 20) < 0;
}

static void print_log_line(struct source *s, size_t len)
{
	printf("%s: %.*s\n", s->id, (int)len, (const char *)s->text.data + s->shown);
	s->shown += len;
	if (s->shown < s->text.len)
		s->shown++;
}

/* Prints all lines in the order of their stamps. Lines without a stamp are printed right after the
 * line of the same log that they belong to. */
static void print_all_lines(struct sources *all, bool rest)
{
	struct source *last = NULL;

	for (;;) {
		struct source *best = NULL;
		size_t len, best_len = 0;

		if (last && find_next_line(last, rest, &len) &&
		    !is_stamped_line((const char *)last->text.data + last->shown, len)) {
			print_log_line(last, len);
			continue;
		}
		for (size_t i = 0; i < all->n; i++) {
			struct source *s = &all->item[i];

			if (find_next_line(s, rest, &len) &&
			    (!best || is_earlier_line(s, len, best, best_len))) {
				best = s;
				best_len = len;
			}
		}
		if (!best)
			return;
		print_log_line(best, best_len);
		last = best;
	}
}

static void release_sources(struct sources *s)
{
	for (size_t i = 0; i < s->n; i++) {
		close(s->item[i].fd);
		free(s->item[i].id);
		buf_release(&s->item[i].text);
	}
	free(s->item);
}

static void read_all_logs(struct sources *s)
{
	for (size_t i = 0; i < s->n; i++)
		read_log_tail(&s->item[i]);
}

/* Returns ERR_NOTFOUND unless there is a log for each id. */
static enum err_code check_log_ids(const char *dir, char **ids, int nids, struct err *e)
{
	struct sources all = { NULL, 0 };
	enum err_code rc = ERR_OK;

	open_logs(&all, dir, NULL, 0);
	for (int i = 0; rc == ERR_OK && i < nids; i++)
		if (!is_log_open(&all, ids[i]))
			rc = err_set(e, ERR_NOTFOUND, "there is no log of \"%.60s\" in %s", ids[i],
			    dir);
	release_sources(&all);
	return rc;
}

/* Prints the logs merged by time, and with --follow what is added until the cluster ends. */
static enum err_code show_logs(void *options, const char *dir, struct err *e)
{
	const struct options *o = options;
	enum err_code rc = check_log_ids(dir, o->ids, o->nids, e);
	struct sources all = { NULL, 0 };
	bool alive = rundir_is_alive(dir, NULL), follow = o->follow && alive;

	if (rc != ERR_OK)
		return rc;
	open_logs(&all, dir, o->ids, o->nids);
	read_all_logs(&all);
	for (size_t i = 0; o->lines >= 0 && i < all.n; i++)
		skip_to_last_lines(&all.item[i], o->lines);
	print_all_lines(&all, !follow);
	while (follow && !ferror(stdout)) {
		clock_sleep(PACE_MS);
		/* Ask this before reading, so that the last pass sees everything that was written. */
		follow = rundir_is_alive(dir, NULL);
		open_logs(&all, dir, o->ids, o->nids);
		read_all_logs(&all);
		print_all_lines(&all, !follow);
	}
	release_sources(&all);
	return ERR_OK;
}

static int run_logs(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .lines = -1 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	o.ids = argv + 1;
	o.nids = nargs;
	return ctl_act_on_run(o.dir, false, show_logs, &o);
}

const struct ctl_cmd ctl_cmd_logs = {
	"logs",
	{
	    .prog = "ps-ctl logs",
	    .args = "[ID ...]",
	    .about = "show the logs of the cluster's processes",
	    .more =
	        "Prints the lines of all logs (or of those of the given processes), sorted by time, each after the\n"
	        "name of its process.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .max_args = -1,
	    .examples = "  ps-ctl logs -f\n  ps-ctl logs -n 20 server-0 worker-1\n",
	},
	run_logs,
};
