/* SPDX-License-Identifier: ISC */
#include "coordinator/final_model.h"

#include <stdlib.h>
#include <unistd.h>

#include "coordinator/http/routes.h"
#include "core/clock.h"
#include "core/helper.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/thread.h"
#include "msg/run_result.h"
#include "rundir/best_checkpoint.h"
#include "rundir/result.h"
#include "rundir/rundir.h"

#define MODEL "model.safetensors"
/* Pause between two attempts to save the model. */
#define AGAIN NSEC_PER_SEC

struct final_model {
	struct coordinator *coordinator;
	pthread_t thread;
	bool started, stop;
	int64_t deadline;
	struct helper *helper; /* running ps-ctl, or NULL; covered by the coordinator's lock */
};

/* Runs ps-ctl, which final_model_stop may stop. Called without the coordinator's lock. */
static enum err_code run_export(struct final_model *f, const char *from, const char *model,
    struct err *e)
{
	const char *args[] = { "-C", from, "export", "all", "-o", "safetensors", "--file", model,
		NULL };
	struct helper *h;
	enum err_code rc = helper_start(args, NULL, &h, e);
	char ignored[512];
	size_t got;

	if (rc)
		return rc;
	coordinator_lock(f->coordinator);
	f->helper = h;
	if (f->stop)
		helper_stop(h);
	coordinator_unlock(f->coordinator);
	do
		rc = helper_read(h, ignored, sizeof ignored, &got, e);
	while (!rc && got > 0);
	coordinator_lock(f->coordinator);
	f->helper = NULL;
	coordinator_unlock(f->coordinator);
	return rc ? (helper_end(h, NULL), rc) : helper_end(h, e);
}

/* Waits, with the lock held, which is released meanwhile, until the job is done. False: stopped. */
static bool await_end_of_job(struct final_model *f)
{
	mutex_assert_held(&f->coordinator->lock);
	while (!f->stop && coord_phase(f->coordinator->coord) != PHASE_DONE)
		coordinator_wait(f->coordinator, 0);
	return !f->stop;
}

/* Waits for a moment before the next attempt. False: stopped. */
static bool wait_to_try_again(struct final_model *f)
{
	int64_t until = clock_now() + AGAIN;
	bool stop;

	coordinator_lock(f->coordinator);
	while (!f->stop && clock_now() < until)
		coordinator_wait(f->coordinator, until);
	stop = f->stop;
	coordinator_unlock(f->coordinator);
	return !stop;
}

/* Saves the model, unless it is saved already. Returns false if it was stopped meanwhile; why->code
 * says whether it failed. */
static bool save_model(struct final_model *f, const json_t *result, struct err *why)
{
	struct coordinator *coordinator = f->coordinator;
	const char *dir = coordinator->server->cfg.id->run_dir;
	char *model = rundir_path(dir, MODEL);
	int64_t until = clock_now() + f->deadline, missing;
	char *best = best_checkpoint_find(dir, result, &missing);
	bool go_on = true;

	*why = (struct err){ 0 };
	if (missing >= 0)
		log_warn(coordinator->server->cfg.log,
		    "there is no checkpoint of the best step, %lld; the model of %s is saved",
		    (long long)missing, best ? "an earlier one" : "the last step");
	while (access(model, F_OK) != 0 && run_export(f, best ? best : dir, model, why) != ERR_OK &&
	    clock_now() < until && (go_on = wait_to_try_again(f)))
		*why = (struct err){ 0 };
	coordinator_lock(coordinator);
	go_on &= !f->stop;
	coordinator_unlock(coordinator);
	free(best);
	free(model);
	return go_on;
}

static void save_model_and_result(struct final_model *f)
{
	struct coordinator *coordinator = f->coordinator;
	json_t *result = routes_make_result(coordinator), *whole;
	const char *dir = coordinator->server->cfg.id->run_dir;
	struct err why, e = { 0 };

	if (!save_model(f, result, &why)) {
		json_decref(result);
		return;
	}
	run_result_set_unsaved(result, why.cause, why.code ? why.msg : "");
	whole = result_with_header(result);
	coordinator_lock(coordinator);
	if (why.code)
		coordinator_event(coordinator, EVENT_model_not_saved, "the model is not saved: %s",
		    why.msg);
	else
		coordinator_event(coordinator, EVENT_model_saved, "the model is in %s/" MODEL, dir);
	coordinator_commit_unlock(coordinator);
	if (result_write(dir, whole, &e))
		log_err(coordinator->server->cfg.log, &e);
	json_decref(whole);
	json_decref(result);
}

/* A result in the run directory is that of this run: rundir_prepare and rundir_reopen remove older
 * ones. */
static bool has_result(const struct coordinator *coordinator)
{
	json_t *result = result_read(coordinator->server->cfg.id->run_dir, NULL);
	bool there = result != NULL;

	json_decref(result);
	return there;
}

static void *run_final_model(void *ctx)
{
	struct final_model *f = ctx;
	bool done;

	coordinator_lock(f->coordinator);
	done = await_end_of_job(f);
	coordinator_unlock(f->coordinator);
	if (done && !has_result(f->coordinator))
		save_model_and_result(f);
	return NULL;
}

enum err_code final_model_start(struct coordinator *coordinator, const struct conf *c,
    struct err *e)
{
	const struct server_config *cfg = &coordinator->server->cfg;
	struct final_model *f;
	enum err_code rc;

	if (!cfg->saves_model || !cfg->id->run_dir || !conf_trains(c))
		return ERR_OK;
	f = mem_alloc(sizeof *f);
	f->coordinator = coordinator;
	f->deadline = c->deadline;
	coordinator->final_model = f;
	rc = thread_start(&f->thread, run_final_model, f, e);
	f->started = !rc;
	return rc;
}

void final_model_stop(struct coordinator *coordinator)
{
	struct final_model *f = coordinator->final_model;

	if (!f)
		return;
	coordinator_lock(coordinator);
	f->stop = true;
	if (f->helper)
		helper_stop(f->helper);
	coordinator_wake_waiters(coordinator);
	coordinator_unlock(coordinator);
	if (f->started)
		pthread_join(f->thread, NULL);
	f->started = false;
}

void final_model_free(struct final_model *f)
{
	free(f);
}
