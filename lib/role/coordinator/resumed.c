/* SPDX-License-Identifier: ISC */
#include "coordinator/resumed.h"

#include <string.h>

#include "ckpt/dirs.h"
#include "ckpt/names.h"
#include "ckpt/read.h"
#include "conf/conf_live.h"
#include "coordinator/coordinator.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/signals.h"
#include "msg/large_description.h"
#include "msg/manifest.h"
#include "rundir/rundir.h"

/* How long a coordinator without any whole checkpoint still answers why the job has failed. */
#define GIVEN_UP_STAYS (2 * NSEC_PER_SEC)

/* ---- damaged checkpoints ---- */

/* For ckpt_newest_by_manifest: why the checkpoint is known to be damaged, or NULL. */
static const char *find_known_damage(void *ctx, const char *path)
{
	const struct resumed *r = &((struct coordinator *)ctx)->resumed;

	for (size_t i = 0; i < r->ndamaged; i++)
		if (strcmp(r->damaged[i].path, path) == 0)
			return r->damaged[i].why;
	return NULL;
}

/* Adds the checkpoint to the damaged ones, once; resumed_tell_damage reports it. */
static void note_damage(void *ctx, const char *path, const char *why)
{
	struct coordinator *coordinator = ctx;
	struct resumed *r = &coordinator->resumed;

	if (find_known_damage(ctx, path))
		return;
	r->damaged = mem_regrow(r->damaged, r->ndamaged + 1, sizeof *r->damaged);
	r->damaged[r->ndamaged++] = (struct damaged_checkpoint){ mem_strdup(path),
		mem_strdup(why) };
}

void resumed_tell_damage(struct coordinator *coordinator)
{
	struct resumed *r = &coordinator->resumed;

	mutex_assert_held(&coordinator->lock);
	for (; r->ntold < r->ndamaged; r->ntold++)
		coordinator_event(coordinator, EVENT_checkpoint_damaged,
		    "%.200s is damaged and not used: %.360s", r->damaged[r->ntold].path,
		    r->damaged[r->ntold].why);
}

void resumed_report(const struct coordinator *coordinator, json_t *status)
{
	const struct resumed *r = &coordinator->resumed;
	json_t *list;

	mutex_assert_held(&((struct coordinator *)(uintptr_t)coordinator)->lock);
	if (!r->ndamaged)
		return;
	list = json_array();
	for (size_t i = 0; i < r->ndamaged; i++)
		json_array_append_new(list,
		    json_pack("{s:s, s:s}", "path", r->damaged[i].path, "why", r->damaged[i].why));
	json_object_set_new(status, "damaged", list);
}

/* ---- choosing ---- */

/* Chooses the newest checkpoint that is not known to be damaged. *path is NULL if the run has none.
 * ERR_IO: *path cannot be read. */
static enum err_code choose_newest(struct coordinator *coordinator, char **path, struct err *e)
{
	char *dir = rundir_path(coordinator->server->cfg.id->run_dir, "checkpoints");
	struct err why = { 0 };
	enum err_code rc = ckpt_newest_by_manifest(dir, find_known_damage, note_damage, coordinator,
	    path, &why);

	free(dir);
	if (rc == ERR_NOTFOUND)
		return ERR_OK;
	if (rc == ERR_FORMAT)
		return err_because(e, rc, why.cause,
		    "--resume auto: %.420s; --resume none begins a new run and moves this one aside",
		    why.msg);
	return rc ? err_pass(e, &why) : ERR_OK;
}

/* Sets newest; or named, and path. */
static void choose_wanted(struct coordinator *coordinator)
{
	const struct server *s = coordinator->server;
	struct resumed *r = &coordinator->resumed;
	const char *want = s->recover ? NULL : s->cfg.resume, *run = s->cfg.id->run_dir;
	const char *restore = s->state && s->state->restore ? s->state->restore : "";

	if (s->recover && *restore)
		r->path = mem_strdup(restore);
	/* The coordinator before this one was killed before it had begun from that checkpoint. If
	 * it was not named, a newer one than this may be known to be damaged, or this one may be.
	 */
	else if (!want && !s->cfg.force_new && *restore && coord_state_is_forming(s->state))
		want = s->state->restore_newest ? "auto" : restore;
	if (!want || !run || strcmp(want, "none") == 0)
		return;
	r->named = strcmp(want, "auto") != 0;
	r->newest = !r->named;
	if (r->named)
		r->path = mem_strdup(want);
}

/* Reads the manifest at r->path, and checks that the job can go on with it. */
static enum err_code read_head(const struct coordinator *coordinator, struct resumed *r,
    struct err *e)
{
	const struct conf *conf = coordinator->server->cfg.conf;
	struct ckpt_reader *reader;
	enum err_code rc = ckpt_open(r->path, &reader, e);

	if (rc)
		return rc;
	ckpt_close(reader);
	r->manifest = ckpt_manifest_read(r->path, e);
	if (!r->manifest)
		return e->code;
	rc = ckpt_head_check(r->manifest, r->path, e);
	if (!rc)
		rc = state_head_decode(manifest_document(r->manifest), &r->head, e);
	if (!rc)
		rc = ckpt_description_read(r->manifest, r->path, &r->description, e);
	if (!rc && !conf->read_only)
		rc = ckpt_state_check(r->manifest, r->path, e);
	if (!rc && conf_trains(conf))
		rc = coord_resume_check(&r->head, conf->deterministic, (unsigned)conf->workers.max,
		    e);
	return rc;
}

/* Takes the tables and the description of the model that a read-only server begins with. The owner of
 * the source has checked its values. */
static void take_source(struct resumed *r, const struct param_source *source)
{
	const struct layout *l = source->ops->layout(source);
	struct state_data *data = mem_alloc(sizeof *data);

	r->facts = json_incref((json_t *)(uintptr_t)source->facts);
	*data = (struct state_data){ .facts = r->facts, .given = r->facts != NULL };
	r->head = (struct state_head){ .generation = l->generation,
		.epoch = l->epoch,
		.tables = layout_tables(l),
		.data = data };
}

/* Frees what was read of the present checkpoint. */
static void release_present(struct resumed *r)
{
	state_head_release(&r->head);
	manifest_free(r->manifest);
	large_description_release(r->description);
	json_decref(r->facts);
	free(r->path);
	r->head = (struct state_head){ 0 };
	r->manifest = NULL;
	r->description = NULL;
	r->facts = NULL;
	r->path = NULL;
}

/* An attempt to read the newest checkpoint ended with *e. Is it to be tried again? If not, an older
 * checkpoint is taken instead. */
static bool is_tried_again(struct coordinator *coordinator, const struct err *e)
{
	struct resumed *r = &coordinator->resumed;

	return !r->named && r->path &&
	    read_retry_wanted(&r->retry, e, coordinator->server->cfg.log, clock_now());
}

/* Chooses a checkpoint, and reads what the coordinator needs of it. */
static enum err_code choose_one(struct coordinator *coordinator, struct err *e)
{
	struct resumed *r = &coordinator->resumed;
	enum err_code rc = r->path ? ERR_OK : choose_newest(coordinator, &r->path, e);

	return rc || !r->path ? rc : read_head(coordinator, r, e);
}

/* Chooses until a checkpoint can be read: the manifest may be whole, and the description not.
 * ERR_NOTREADY: the newest one cannot be read at present, and is to be tried again. */
static enum err_code choose_and_read(struct coordinator *coordinator, struct err *e)
{
	struct resumed *r = &coordinator->resumed;
	enum err_code rc;

	for (;;) {
		rc = choose_one(coordinator, e);
		if (is_tried_again(coordinator, e)) {
			struct err why = *e;

			release_present(r);
			return err_because(e, ERR_NOTREADY, why.cause, "%s", why.msg);
		}
		if (r->named || !r->path || (rc != ERR_FORMAT && rc != ERR_IO))
			break;
		note_damage(coordinator, r->path, e->msg);
		release_present(r);
		*e = (struct err){ 0 };
	}
	r->retry = (struct read_retry){ 0 };
	if (!rc && r->path)
		log_info(coordinator->server->cfg.log, "resuming from %s", r->path);
	return rc;
}

/* A read-only cluster without a model would answer pulls with initial values. */
static enum err_code refuse_no_model(const struct conf *conf, struct err *e)
{
	return conf->read_only
	    ? err_set(e, ERR_CONFIG,
	          "read_only: this cluster has no model to answer pulls with; begin it with "
	          "ps-serve --read-only FROM")
	    : ERR_OK;
}

enum err_code resumed_find(struct coordinator *coordinator, struct err *e)
{
	struct resumed *r = &coordinator->resumed;
	const struct server_config *cfg = &coordinator->server->cfg;
	enum err_code rc;

	if (cfg->source) {
		take_source(r, *cfg->source);
		return ERR_OK;
	}
	choose_wanted(coordinator);
	if (coordinator->server->recover)
		return ERR_OK;
	if (!r->newest && !r->path)
		return refuse_no_model(cfg->conf, e);
	while ((rc = choose_and_read(coordinator, e)) == ERR_NOTREADY && !signals_end_is_pending())
		clock_sleep(READ_RETRY_PAUSE_MS);
	return rc || r->path ? rc : refuse_no_model(cfg->conf, e);
}

void resumed_configure(const struct coordinator *coordinator, struct coord_config *cfg)
{
	const struct resumed *r = &coordinator->resumed;

	cfg->resume = r->head.tables ? &r->head : NULL;
	cfg->resume_path = r->path;
	cfg->resume_newest = r->path && !r->named;
	cfg->check_resume = r->manifest != NULL;
	cfg->description = cfg->resume ? r->description : coordinator->server->description;
	cfg->config = coordinator->config;
}

/* The configuration c with the settings that had been changed by a checkpoint of the same run;
 * manifest NULL: there is none. */
static json_t *continue_settings(const struct conf *c, const struct manifest *manifest)
{
	json_t *plain = conf_to_json(c), *changed = NULL;
	struct conf from, to;
	struct err e;

	if (!manifest || conf_from_json(manifest->config, &from, &e))
		return plain;
	if (conf_from_json(plain, &to, &e) == ERR_OK) {
		if (conf_copy_live(&to, &from, &e) == ERR_OK)
			changed = conf_to_json(&to);
		conf_release(&to);
	}
	conf_release(&from);
	if (!changed)
		return plain;
	json_decref(plain);
	return changed;
}

json_t *resumed_settings(const struct coordinator *coordinator)
{
	const char *run = coordinator->server->cfg.id->run_dir;
	const struct resumed *r = &coordinator->resumed;
	char *dir = run ? rundir_path(run, "checkpoints") : NULL;
	size_t n = dir ? strlen(dir) : 0;
	bool own = r->manifest && dir && strncmp(r->path, dir, n) == 0 && r->path[n] == '/';

	free(dir);
	return continue_settings(coordinator->server->cfg.conf, own ? r->manifest : NULL);
}

/* ---- damage that the servers find ---- */

/* Chooses another checkpoint and gives it to the coord, which uses the one before until then. */
static enum err_code take_older(struct coordinator *coordinator, struct err *e)
{
	struct resumed *r = &coordinator->resumed, before = *r;
	json_t *config = coordinator->config;
	enum err_code rc;

	r->head = (struct state_head){ 0 };
	r->manifest = NULL;
	r->description = NULL;
	r->path = NULL;
	rc = choose_and_read(coordinator, e);
	/* Its directory may be gone by now. */
	if (!rc && !r->path)
		rc = err_set(e, ERR_NOTFOUND, "%s is damaged, and there is no other checkpoint",
		    before.path);
	if (rc) {
		release_present(r);
		r->head = before.head;
		r->manifest = before.manifest;
		r->description = before.description;
		r->path = before.path;
		return rc;
	}
	coordinator->config = resumed_settings(coordinator);
	resumed_configure(coordinator, &coordinator->cfg);
	coord_resume_instead(coordinator->coord, &coordinator->cfg, clock_now());
	json_decref(config);
	release_present(&before);
	return ERR_OK;
}

/* Fails the job. */
static void give_up(struct coordinator *coordinator, const struct err *why)
{
	int64_t now = clock_now();

	coordinator->resumed.failure = *why;
	coordinator->resumed.ends_at = now + GIVEN_UP_STAYS;
	coord_fail(coordinator->coord, why->cause, why->msg, now);
}

/* Ends the process, once, if its time is over. */
static void end_given_up(struct coordinator *coordinator)
{
	struct resumed *r = &coordinator->resumed;

	if (clock_now() < r->ends_at || coord_ended(coordinator->coord))
		return;
	server_end(coordinator->server, &r->failure);
	coord_end(coordinator->coord);
}

void resumed_replace_damaged(struct coordinator *coordinator)
{
	struct resumed *r = &coordinator->resumed;
	const char *damage = coord_resume_damage(coordinator->coord);
	struct err e = { 0 };
	enum err_code rc;

	mutex_assert_held(&coordinator->lock);
	if (r->ends_at)
		end_given_up(coordinator);
	if (!damage || r->ends_at)
		return;
	if (r->named) {
		rc = err_set(&e, ERR_FORMAT, "%s", damage);
	} else {
		note_damage(coordinator, r->path, damage);
		rc = take_older(coordinator, &e);
		resumed_tell_damage(coordinator);
	}
	/* ERR_NOTREADY: the next turn tries again. */
	if (rc && rc != ERR_NOTREADY)
		give_up(coordinator, &e);
}

void resumed_release(struct resumed *r)
{
	release_present(r);
	for (size_t i = 0; i < r->ndamaged; i++) {
		free(r->damaged[i].path);
		free(r->damaged[i].why);
	}
	free(r->damaged);
}
