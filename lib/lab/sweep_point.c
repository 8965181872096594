/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/dirs.h"
#include "conf/conf_key.h"
#include "conf/conf_unused.h"
#include "core/file.h"
#include "core/json.h"
#include "core/launch.h"
#include "core/mem.h"
#include "lab/report_read.h"
#include "lab/report_table.h"
#include "rundir/result.h"
#include "lab/sweep.h"

#define ID_MAX     48
#define CONFIG_MAX (1u << 20)

/* Returns the name of the point's cluster at a rung. */
static char *rung_name(const struct sweep *s, const struct point *p, size_t rung)
{
	return s->ladder.rungs > 1 ? mem_printf("%s_rung-%zu", p->id, rung) : mem_strdup(p->id);
}

char *sweep_point_rung_path(const struct sweep *s, const struct point *p, size_t rung,
    const char *suffix)
{
	char *name = rung_name(s, p, rung), *path = mem_printf("%s/%s%s", s->folder, name, suffix);

	free(name);
	return path;
}

char *sweep_point_path(const struct sweep *s, const struct point *p, const char *suffix)
{
	return sweep_point_rung_path(s, p, p->rung, suffix);
}

/* ---- identity ---- */

/* Makes the point's id from its settings. When they are too long, or contain characters that a
 * cluster's name cannot have, a digest of them is appended, so that no two points have the same
 * id. */
static char *make_point_id(const json_t *settings)
{
	struct buf id = BUF_INIT;
	uint8_t digest[crypto_generichash_BYTES_MIN];
	bool exact = true;
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)settings, key, v) {
		const char *leaf = strncmp(key, "job.", 4) == 0 ? key + 4 : key;
		char *text = report_value_text(v);

		buf_printf(&id, "%s%s-%s", id.len ? "_" : "", leaf, text);
		free(text);
	}
	for (size_t i = 0; i < id.len; i++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-",
		        id.data[i])) {
			id.data[i] = '-';
			exact = false;
		}
	if (!exact || id.len > ID_MAX) {
		char *whole = json_text(settings);

		crypto_generichash(digest, sizeof digest, (const uint8_t *)whole, strlen(whole),
		    NULL, 0);
		free(whole);
		id.len = id.len > ID_MAX ? ID_MAX : id.len;
		buf_printf(&id, "-%02x%02x%02x", digest[0], digest[1], digest[2]);
	}
	return (char *)id.data;
}

/* Makes the point's settings as JSON of the keys' types. A value that its key does not accept
 * becomes a string. */
static json_t *point_settings(const struct sweep *s, const struct point *p)
{
	json_t *o = json_object();

	for (size_t i = 0; i < s->nkeys; i++) {
		char *name = mem_printf("%.*s", (int)strcspn(p->assignment[i], "="),
		    p->assignment[i]);
		const struct conf_key *k = conf_key_find(name, NULL);
		json_t *v = NULL;
		struct conf c;

		conf_init(&c);
		if (k && conf_set(&c, p->assignment[i], NULL) == ERR_OK)
			v = conf_value_json(k, &c);
		conf_release(&c);
		json_object_set_new(o, k ? k->path : name,
		    v ? v : json_string(strchr(p->assignment[i], '=') + 1));
		free(name);
	}
	return o;
}

/* ---- its files ---- */

/* Lists the keys for which an earlier run in this directory had other values, as "sync, job.lr".
 * Returns NULL when there are none, or no earlier run. */
static char *find_other_settings(const char *run, const struct conf *c)
{
	char *path = path_join(run, "cluster.json"), *keys = NULL;
	json_t *there = json_parse_file(path, CONFIG_MAX, NULL);
	struct conf old;

	if (there && conf_from_json(there, &old, NULL) == ERR_OK) {
		keys = conf_diff(c, &old);
		conf_release(&old);
	}
	json_decref(there);
	free(path);
	return keys;
}

static enum err_code write_point_file(const struct sweep *s, const struct point *p,
    const struct conf *c, struct err *e)
{
	char *path = sweep_point_path(s, p, ".json");
	json_t *j = conf_file_json(c);
	char *text = json_dumps(j, JSON_INDENT(2));
	enum err_code rc = file_replace(path, text, strlen(text), 0600, e);

	free(text);
	json_decref(j);
	free(path);
	return rc;
}

/* Looks for an earlier run of this point: takes over its result if it is done, and refuses one with
 * other settings. */
static enum err_code check_earlier_run(const struct sweep *s, struct point *p, const struct conf *c,
    struct err *e)
{
	char *run = sweep_point_path(s, p, ".run"), *keys = find_other_settings(run, c);
	json_t *result = keys ? NULL : result_read(run, NULL);
	enum err_code rc = ERR_OK;

	if (keys)
		rc = err_set(e, ERR_CONFIG,
		    "%s was run with other values of %s: use the same values, or another folder "
		    "with --output",
		    run, keys);
	if (result && result_has_state(result, PHASE_DONE)) {
		p->state = POINT_DONE;
		p->kept = true;
		json_decref(p->result);
		p->result = json_incref(result);
	}
	json_decref(result);
	free(keys);
	free(run);
	return rc;
}

/* With rungs, a run ends after the steps of its rung, with a checkpoint for the next one, and not after
 * epochs. Returns the number of assignments, at most RUNG_SETS. */
#define RUNG_SETS 3
static size_t rung_sets(const struct sweep *s, const struct point *p, char **set)
{
	const struct sweep_ladder *l = &s->ladder;
	long long steps = (long long)l->steps[p->rung];

	if (!steps)
		return 0;
	set[0] = mem_printf("job.steps=%lld", steps);
	set[1] = mem_strdup("job.epochs=0");
	if (p->rung + 1 == l->rungs)
		return 2;
	set[2] = mem_printf("checkpoint_every=%lld", steps);
	return 3;
}

static enum err_code load_point_conf(const struct sweep *s, const struct point *p, const char *file,
    const struct opt_list *sets, struct conf *c, struct err *e)
{
	char *rung[RUNG_SETS];
	size_t nrung = rung_sets(s, p, rung), n = 0;
	const char **all = mem_array(sets->n + s->nkeys + nrung, sizeof *all);
	enum err_code rc;

	for (size_t i = 0; i < sets->n; i++)
		all[n++] = sets->item[i];
	for (size_t i = 0; i < s->nkeys; i++)
		all[n++] = p->assignment[i];
	for (size_t i = 0; i < nrung; i++)
		all[n++] = rung[i];
	rc = conf_load(file, all, n, c, e);
	for (size_t i = 0; i < nrung; i++)
		free(rung[i]);
	free((void *)all);
	return rc;
}

static void note_unused_key(void *ctx, const char *key, const char *why)
{
	struct sweep *s = ctx;
	char *sentence = mem_printf("%s is set, but changes nothing: %s", key, why);

	if (!s->unused)
		s->unused = json_object();
	json_object_set_new(s->unused, sentence,
	    json_integer(json_int(s->unused, sentence, 0) + 1));
	free(sentence);
}

/* The id and the settings are made even for an invalid point, because it has a row in the table.
 * The cluster is named after the point, so that its processes and logs can be told apart. */
enum err_code sweep_point_prepare(struct sweep *s, struct point *p, const char *file,
    const struct opt_list *sets, struct err *e)
{
	struct conf c;
	enum err_code rc = load_point_conf(s, p, file, sets, &c, e);

	if (!p->id) {
		p->settings = point_settings(s, p);
		p->id = make_point_id(p->settings);
	}
	if (rc) {
		p->state = POINT_FAILED;
		snprintf(p->reason, sizeof p->reason, "%s", e->msg);
		return ERR_OK;
	}
	conf_unused(&c, note_unused_key, s);
	free(c.name);
	c.name = rung_name(s, p, p->rung);
	rc = check_earlier_run(s, p, &c, e);
	if (rc == ERR_OK && p->state != POINT_DONE)
		rc = write_point_file(s, p, &c, e);
	conf_release(&c);
	return rc;
}

bool sweep_point_has_run(const struct sweep *s, const struct point *p, size_t rung)
{
	char *run = sweep_point_rung_path(s, p, rung, ".run"),
	     *config = path_join(run, "cluster.json");
	bool has = access(config, F_OK) == 0;

	free(config);
	free(run);
	return has;
}

bool sweep_point_has_result(const struct sweep *s, const struct point *p)
{
	char *run = sweep_point_path(s, p, ".run");
	json_t *result = result_read(run, NULL);
	bool has = result;

	json_decref(result);
	free(run);
	return has;
}

/* True when there is an unfinished run that can be resumed. */
static bool is_resumable(const struct sweep *s, const struct point *p)
{
	char *run = sweep_point_path(s, p, ".run");
	json_t *result = result_read(run, NULL);
	/* A run that failed would fail again if it were resumed. */
	bool begun = sweep_point_has_run(s, p, p->rung) &&
	    !(result && result_has_state(result, PHASE_FAILED));

	json_decref(result);
	free(run);
	return begun;
}

/* Returns the newest checkpoint of a rung, to be freed, or NULL. */
static char *find_checkpoint(const struct sweep *s, const struct point *p, size_t rung)
{
	char *run = sweep_point_rung_path(s, p, rung, ".run"),
	     *checkpoints = path_join(run, "checkpoints"), *newest = NULL;

	if (ckpt_newest(checkpoints, NULL, NULL, &newest, NULL) != ERR_OK)
		newest = NULL;
	free(checkpoints);
	free(run);
	return newest;
}

/* Without a checkpoint, which a job may end before it has written, a rung begins from its first step: it
 * takes longer, and has the same result. */
char *sweep_point_begin(const struct sweep *s, const struct point *p)
{
	char *before = p->rung ? find_checkpoint(s, p, p->rung - 1) : NULL, *own = NULL;

	if (is_resumable(s, p) && (!before || (own = find_checkpoint(s, p, p->rung)))) {
		free(before);
		before = mem_strdup("auto");
	}
	free(own);
	return before ? before : mem_strdup("none");
}

/* The reason of a failure is the first of these that exists: the reason in the result, the last
 * error in the log, the exit of the process. A rung that is not done leaves the result of the one before. */
void sweep_point_finish(const struct sweep *s, struct point *p, const char *how)
{
	char *run = sweep_point_path(s, p, ".run"), *log = sweep_point_path(s, p, ".log");
	json_t *result = result_read(run, NULL);
	struct buf last = BUF_INIT;

	if (!result)
		p->state = POINT_FAILED;
	else
		p->state = result_has_state(result, PHASE_DONE) ? POINT_DONE
		    : result_has_state(result, PHASE_STOPPED)   ? POINT_STOPPED
		                                                : POINT_FAILED;
	if (p->state != POINT_DONE) {
		launch_last_words(log, &last);
		snprintf(p->reason, sizeof p->reason, "%s",
		    result && *json_str(result, "reason", "") ? json_str(result, "reason", "")
		        : last.len                            ? (char *)last.data
		                                              : how);
	}
	if (p->state == POINT_DONE || !p->result) {
		json_decref(p->result);
		p->result = json_incref(result);
	}
	json_decref(result);
	buf_release(&last);
	free(run);
	free(log);
}

double sweep_point_score(const struct sweep *s, const json_t *result)
{
	const json_t *v;
	struct curve_metric m;

	if (s->metric && curve_metric_find(s->metric, &m, NULL) == ERR_OK) {
		char *name = mem_printf("%s%s", m.evaluated ? "eval." : "", m.name);

		v = report_figure(result, name);
		free(name);
		return json_is_number(v) ? -metrics_goodness(m.measure, json_number_value(v))
		                         : INFINITY;
	}
	v = report_figure(result, "eval.loss");
	if (!json_is_number(v))
		v = report_figure(result, "train_loss");
	return json_is_number(v) ? json_number_value(v) : INFINITY;
}
