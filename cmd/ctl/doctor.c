/* SPDX-License-Identifier: ISC */
#include "session/control.h"
#include "doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/suggest.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/plain.h"
#include "ctl.h"
#include "local.h"
#include "rundir/rundir.h"

#define PATIENCE (5 * NSEC_PER_SEC)
/* How many of the processes that share a line are named. */
#define NAMED 3u
/* Timeout of a request in doctor_glance(): its caller handles no signals and no ended children
 * meanwhile. */
#define GLANCE (NSEC_PER_SEC / 2)

struct options {
	const char *dir, *join;
	struct opt_list set;
	bool quick, json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "join", 0, OPT_STR, offsetof(struct options, join), "FILE",
	    "check from another host with this join file", NULL, 0, 0 },
	{ "set", 's', OPT_LIST, offsetof(struct options, set), "KEY=VALUE",
	    "with FILE: change a key, as ps-ctl start --set would", NULL, 0, 0 },
	{ "quick", 'q', OPT_FLAG, offsetof(struct options, quick), NULL,
	    "do not let the workers test their links to the servers", NULL, 0, 0 },
	CTL_OPT_JSON(struct options, json),
};

/* ---- findings ---- */

/* The remedy with what is known in place of DIR, CLUSTER_FILE and ID. FILE alone is another file. A
 * new string. */
static char *fill_remedy(const struct doctor *d, const char *about, const char *remedy)
{
	char *file = d->dir ? rundir_cluster_file(d->dir) : NULL;
	const struct fill_word list[] = { { "DIR", d->dir }, { "ID", *about ? about : NULL },
		{ "CLUSTER_FILE", file ? file : "FILE" } };
	char *text = fill_words(remedy, list, CTL_COUNT(list));

	free(file);
	return text;
}

void doctor_add_finding(struct doctor *d, enum doctor_level level, enum doctor_weight weight,
    const char *check, const char *about, const char *remedy, const char *fmt, ...)
{
	char text[900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	d->list = mem_regrow(d->list, d->n + 1, sizeof *d->list);
	d->list[d->n++] = (struct doctor_finding){ level, weight, check, mem_strdup(about),
		mem_strdup(text), fill_remedy(d, about, remedy), NULL, NULL, 0 };
}

void doctor_share_line(struct doctor *d, const char *who, const char *together, double seconds)
{
	struct doctor_finding *f = &d->list[d->n - 1];

	f->who = mem_strdup(who);
	f->together = mem_strdup(together);
	f->seconds = seconds;
}

void doctor_add_ok(struct doctor *d, const char *check, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->list[i].check, check) == 0)
			return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	doctor_add_finding(d, DOCTOR_OK, DOCTOR_PLAIN, check, "", "", "%s", text);
}

void doctor_add_message(struct doctor *d, enum doctor_level level, enum doctor_weight weight,
    const char *about, enum err_cause cause, const char *text)
{
	static const struct {
		const char *check, *remedy;
	} causes[] = {
#define REMEDY(cause, check, remedy) [CAUSE_##cause] = { check, remedy },
#include "doctor_causes.def"
#undef REMEDY
	};
	char *remedy = mem_printf("%s%s", causes[cause].remedy,
	    cause == CAUSE_LOSS && doctor_has_checkpoint(d)
	        ? "; --resume auto continues from the last checkpoint"
	        : "");

	doctor_add_finding(d, level, weight, causes[cause].check, about, remedy, "%s", text);
	free(remedy);
}

static void release_findings(struct doctor *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->list[i].about);
		free(d->list[i].text);
		free(d->list[i].remedy);
		free(d->list[i].who);
		free(d->list[i].together);
	}
	free(d->list);
	http_client_free(d->client);
	*d = (struct doctor){ 0 };
}

static int finding_rank(const struct doctor_finding *f)
{
	return (int)f->level * 8 + (int)f->weight;
}

/* Sort the findings, the worst first, and return the worst level. Insertion sort: it is stable, and
 * there are few findings. */
static enum doctor_level sort_findings(struct doctor *d)
{
	for (size_t i = 1; i < d->n; i++) {
		struct doctor_finding f = d->list[i];
		size_t at = i;

		for (; at > 0 && finding_rank(&d->list[at - 1]) < finding_rank(&f); at--)
			d->list[at] = d->list[at - 1];
		d->list[at] = f;
	}
	return d->n ? d->list[0].level : DOCTOR_OK;
}

static const char *const level_name[] = { "ok", "warn", "fail" };

/* Do two findings share a line? */
static bool is_line_shared(const struct doctor_finding *a, const struct doctor_finding *b)
{
	size_t kind = strcspn(a->about, "-");

	return a->together && b->together && a->level == b->level &&
	    strcmp(a->check, b->check) == 0 && strcmp(a->who, b->who) == 0 &&
	    strcmp(a->together, b->together) == 0 && strcmp(a->remedy, b->remedy) == 0 &&
	    strncmp(a->about, b->about, kind + 1) == 0;
}

/* Writes the text of a finding, or of all that share its line: "the start waits for 26 workers
 * (worker-1, worker-2, worker-4 and 23 more; 5.6 s): they are reading their data". */
static void put_shared_text(const struct doctor *d, size_t first, struct buf *out)
{
	const struct doctor_finding *f = &d->list[first];
	struct buf names = BUF_INIT;
	double seconds = 0;
	unsigned n = 0;

	for (size_t i = first; i < d->n; i++) {
		if (!is_line_shared(f, &d->list[i]))
			continue;
		names_put(&names, &n, NAMED, d->list[i].about);
		seconds = d->list[i].seconds > seconds ? d->list[i].seconds : seconds;
	}
	names_put_rest(&names, n, NAMED);
	if (n < 2)
		buf_puts(out, f->text);
	else
		buf_printf(out, "%s waits for %u %.*ss (%s; %.1f s): %s", f->who, n,
		    (int)strcspn(f->about, "-"), f->about, (char *)names.data, seconds,
		    f->together);
	buf_release(&names);
}

/* The line of a finding, to be freed, such as "warn waits: TEXT; REMEDY". NULL: an earlier one
 * shares its line with it. */
static char *format_line(const struct doctor *d, size_t i)
{
	const struct doctor_finding *f = &d->list[i];
	struct buf line = BUF_INIT;

	for (size_t k = 0; k < i; k++)
		if (is_line_shared(f, &d->list[k]))
			return NULL;
	buf_printf(&line, "%-4s %s: ", level_name[f->level], f->check);
	put_shared_text(d, i, &line);
	buf_printf(&line, "%s%s", *f->remedy ? "; " : "", f->remedy);
	return (char *)line.data;
}

static void print_finding(const struct doctor *d, size_t i, bool json)
{
	const struct doctor_finding *f = &d->list[i];
	json_t *o;

	if (!json) {
		char *line = format_line(d, i);

		if (line)
			plain_print(stdout, "%s\n", line);
		free(line);
		return;
	}
	o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "check", f->check, "level", level_name[f->level],
	    "about", f->about, "text", f->text, "remedy", f->remedy);
	json_print_event("check", o);
	json_decref(o);
}

/* ---- examinations ---- */

/* The links come last, because measuring them takes time. How a run ended is a failure only if it
 * is not running again. */
static void examine_cluster(struct doctor *d, bool quick)
{
	enum err_code rc = d->alive ? control_connect(d->dir, &d->client, NULL) : ERR_UNREACH;

	doctor_keys(d);
	doctor_disk(d, d->dir);
	if (d->alive)
		doctor_processes(d);
	if (!rc)
		doctor_live(d);
	doctor_past(d, d->alive ? DOCTOR_WARN : DOCTOR_FAIL);
	if (d->client && !quick)
		doctor_links(d);
}

/* Examines a cluster file: whether it could be started, and a run directory of its name if there is
 * one. */
static int examine_file(struct doctor *d, const struct options *o, const char *file)
{
	struct conf conf;
	struct err e = { 0 };
	char *dir = NULL;
	enum err_code rc = local_load_conf(file, &o->set, NULL, &conf, &dir, &e);

	if (rc == ERR_NOTFOUND || rc == ERR_USAGE)
		return ctl_fail(&e);
	if (rc) {
		bool data = e.cause == CAUSE_DATA, eval = e.cause == CAUSE_EVAL_DATA;
		bool missing = e.cause == CAUSE_DATA_MISSING;

		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE,
		    data || eval || missing ? "data" : "config", file,
		    missing    ? "put the data there, or set its path: --set data=PATH"
		        : eval ? "put the data there, or set its path: --set eval=PATH"
		        : data ? "ps-ctl show data describes the key"
		               : "ps-ctl show KEY describes a key",
		    "%s", e.msg);
		return 0;
	}
	d->dir = dir;
	d->alive = control_is_alive(dir);
	doctor_file(d, &conf);
	doctor_state(d, &conf);
	if (d->alive)
		examine_cluster(d, o->quick);
	else if (access(dir, F_OK) == 0)
		doctor_past(d, DOCTOR_WARN);
	conf_release(&conf);
	d->dir = NULL;
	free(dir);
	return 0;
}

static int examine_run(struct doctor *d, const struct options *o)
{
	struct err e = { 0 };
	char *dir = NULL;
	enum err_code rc = ctl_run_dir(o->dir, &dir, &e);

	if (rc)
		return ctl_fail(&e);
	d->dir = dir;
	d->alive = control_is_alive(dir);
	doctor_state_of_run(d);
	examine_cluster(d, o->quick);
	d->dir = NULL;
	free(dir);
	return 0;
}

/* Exit codes: 0 when nothing failed (warnings do not count), 1 for a failure, 2 for a wrong use;
 * others when the subject itself cannot be examined, and then nothing is printed. */
static int run_doctor(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct doctor d = { .patience = PATIENCE };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if ((nargs != 0) + (o.dir != NULL) + (o.join != NULL) > 1)
		code = ctl_report_misuse(self,
		    "give only one of a cluster FILE, -C DIR and --join FILE");
	else if (o.set.n && !nargs)
		code = ctl_report_misuse(self, "--set requires a cluster FILE");
	else if (o.join)
		doctor_join(&d, o.join);
	else
		code = nargs ? examine_file(&d, &o, argv[1]) : examine_run(&d, &o);
	if (!code) {
		code = sort_findings(&d) == DOCTOR_FAIL ? 1 : 0;
		for (size_t i = 0; i < d.n; i++)
			print_finding(&d, i, o.json);
	}
	release_findings(&d);
	opt_list_release(&o.set);
	return code;
}

void doctor_glance(const char *dir, struct progress *p)
{
	struct doctor d = { .dir = dir, .alive = true, .patience = GLANCE };

	examine_cluster(&d, true);
	sort_findings(&d);
	for (size_t i = 0; i < d.n && d.list[i].level != DOCTOR_OK; i++) {
		char *line = format_line(&d, i);

		if (line)
			progress_say(p, "doctor: %s", line);
		free(line);
	}
	release_findings(&d);
}

const struct ctl_cmd ctl_cmd_doctor = {
	"doctor",
	{
	    .prog = "ps-ctl doctor",
	    .args = "[FILE]",
	    .about = "look for problems and their remedies, the worst first",
	    .more =
	        "It checks a running cluster, a finished run, or, with a cluster FILE, a cluster that is about to\n"
	        "be started: keys and modes, clocks, names, ports, links between workers and servers, versions,\n"
	        "descriptors, memory, disk, data. The exit code is 1 if a check fails. The workers of a running\n"
	        "cluster test their links with up to 2 MiB each, while they train.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .max_args = 1,
	    .examples =
	        "  ps-ctl doctor cluster                # before the start\n"
	        "  ps-ctl doctor | head -n 1            # the cluster that runs here\n"
	        "  ps-ctl doctor --join w.join          # on another host, before ps-work train --join w.join\n",
	},
	run_doctor,
};
