/* SPDX-License-Identifier: ISC */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "msg/run_result.h"
#include "msg/words.h"
#include "session/control.h"
#include "conf/conf.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "ctl.h"
#include "supervisor/shutdown.h"
#include "rundir/result.h"
#include "rundir/rundir.h"
#include "state/state_store.h"
#include "saved.h"

/* ps-ctl stop: save what a cluster has learned, end it, and print its result. The coordinator holds the
 * job, takes its last checkpoint and stops it, by one order (POST /v1/stop with "save"). A supervisor
 * ends the processes; a cluster without one is stopped through its coordinator; what does not end in
 * time is killed (supervisor/shutdown.h). */

#define CONFIG_MAX  (1u << 20)
#define TERM_GRACE  (5 * NSEC_PER_SEC)
#define STATUS_WAIT (2 * NSEC_PER_SEC)
/* Limits for saving and for ending, unless --timeout is given. */
#define SAVE_WAIT (600 * NSEC_PER_SEC)
#define END_WAIT  (30 * NSEC_PER_SEC)
/* Limit for calling off an order, during which the servers may be writing */
#define CANCEL_WAIT (30 * NSEC_PER_SEC)
/* The reason in the result of a job that was not over. */
#define STOP_REASON "ps-ctl stop"

struct options {
	const char *dir;
	int64_t timeout; /* 0: not given */
	bool discard, json;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "discard", 0, OPT_FLAG, offsetof(struct options, discard), NULL,
	    "save nothing: updates since the last checkpoint are lost", NULL, 0, 0 },
	CTL_OPT_TIMEOUT(struct options, timeout,
	    "time limit for saving (10m), and then for ending (30s)"),
	CTL_OPT_JSON(struct options, json),
};

/* ---- saving ---- */

/* Can the parameters of the run directory's cluster change? A read-only cluster has nothing to
 * save. */
static bool may_change_parameters(const char *dir)
{
	char *path = rundir_path(dir, "cluster.json");
	json_t *config = json_parse_file(path, CONFIG_MAX, NULL);
	struct conf conf = { 0 };
	bool yes = config && conf_from_json(config, &conf, NULL) == ERR_OK && !conf.read_only;

	conf_release(&conf);
	json_decref(config);
	free(path);
	return yes;
}

/* Asks for the status. A coordinator that has run before, on its own, is being started again where none
 * listens, and is waited for. */
static enum err_code request_status(const char *dir, json_t **status)
{
	const struct ctl_call get = { .method = "GET", .path = "/v1/status", .repeatable = true };
	json_t *saved = state_store_look(dir);
	struct http_client *client = NULL;
	enum err_code rc;

	if (saved) {
		rc = ctl_request_soon(dir, &get, STATUS_WAIT, status, NULL);
	} else {
		rc = control_connect(dir, &client, NULL);
		if (!rc)
			rc = http_call(client, "GET", get.path, NULL, STATUS_WAIT, NULL, status,
			    NULL);
		http_client_free(client);
	}
	json_decref(saved);
	return rc;
}

/* Would the end of the cluster lose parameters, of a running job or of tables without a job?
 * False also when the coordinator does not answer, because then nothing can be saved. */
static bool has_unsaved_work(const char *dir)
{
	json_t *status = NULL;
	int64_t state;
	bool yes;

	if (request_status(dir, &status) != ERR_OK)
		fprintf(stderr,
		    "ps-ctl: warning: the coordinator of %s does not answer: no checkpoint can be taken\n",
		    dir);
	state = words_member(words_phase, status, "state");
	yes = (state == PHASE_RUNNING || state == PHASE_FINISHING) &&
	    json_int(status, "tables", 0) > 0 && may_change_parameters(dir);
	json_decref(status);
	return yes;
}

/* The signal that interrupts the wait for the saved job; 0: none yet */
static volatile sig_atomic_t interrupting_signal;
static atomic_bool interrupted;

static void note_interruption(int sig)
{
	interrupting_signal = sig;
	atomic_store(&interrupted, true);
}

/* Catch the signals that interrupt the wait (catch), or have them end this program again. A signal that
 * is ignored stays so. The second one ends the program in any case. */
static void catch_interruptions(bool catch)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction is,
	    will = { .sa_handler = catch ? note_interruption : SIG_DFL,
		    .sa_flags = (int)SA_RESETHAND };

	sigemptyset(&will.sa_mask);
	for (size_t i = 0; i < CTL_COUNT(signals); i++)
		if (sigaction(signals[i], NULL, &is) == 0 && is.sa_handler != SIG_IGN)
			sigaction(signals[i], &will, NULL);
}

/* "keeps running", or "stays paused" for a job that a user has paused */
static const char *describe_continuation(const char *dir)
{
	json_t *status = NULL;
	bool paused = request_status(dir, &status) == ERR_OK && json_flag(status, "paused");

	json_decref(status);
	return paused ? "stays paused" : "keeps running";
}

/* Call the order off, say what becomes of the job, and end by the signal. */
static void end_by_interruption(const char *dir)
{
	json_t *body = json_pack("{s:b}", "cancel", true), *answer = NULL;
	enum err_code rc = ctl_request(dir,
	    &(struct ctl_call){ .path = "/v1/stop", .body = body, .repeatable = true }, CANCEL_WAIT,
	    &answer, NULL);

	if (rc)
		fprintf(stderr,
		    "ps-ctl: interrupted, but the coordinator of %s does not answer: it may still save "
		    "and stop the job\n",
		    dir);
	else if (json_flag(answer, "cancelled") || has_unsaved_work(dir))
		fprintf(stderr, "ps-ctl: interrupted: %s %s\n", dir, describe_continuation(dir));
	else
		fprintf(stderr,
		    "ps-ctl: interrupted, but the job of %s is already saved and stopped; ps-ctl stop "
		    "ends processes that remain\n",
		    dir);
	json_decref(answer);
	json_decref(body);
	raise(interrupting_signal);
}

enum err_code ctl_stop_saved(const char *dir, struct http_client *client, const char *why,
    int64_t timeout, json_t **answer, struct err *e)
{
	int64_t end = clock_now() + timeout;
	json_t *body = json_pack("{s:b, s:s, s:f}", "save", true, "why", why, "seconds",
	    (double)timeout / NSEC_PER_SEC);
	enum err_code rc;

	*answer = NULL;
	/* The coordinator answers at least every few minutes. */
	do {
		json_decref(*answer);
		*answer = NULL;
		rc = ctl_call(dir, client,
		    &(struct ctl_call){ .path = "/v1/stop", .body = body, .repeatable = true },
		    end - clock_now() + STATUS_WAIT, answer, e);
	} while (!rc && json_flag(*answer, "saving"));
	json_decref(body);
	return rc;
}

/* Have the coordinator save and stop the job, or call that off when a signal comes. */
static enum err_code order_saved_stop(const char *dir, int64_t timeout, json_t **answer,
    struct err *e)
{
	struct http_client *client = NULL;
	enum err_code rc;

	catch_interruptions(true);
	rc = control_connect_until(dir, &interrupted, &client, e);
	if (!rc)
		rc = ctl_stop_saved(dir, client, STOP_REASON, timeout, answer, e);
	http_client_free(client);
	catch_interruptions(false);
	if (interrupting_signal)
		end_by_interruption(dir);
	return rc;
}

/* Save and stop the job, or take a checkpoint of tables without a job, if the cluster has unsaved
 * parameters. *path is the checkpoint's path, to be freed, or NULL when there was nothing to save. An
 * error means that the job goes on and could not be saved. */
static enum err_code save_and_stop_job(const char *dir, int64_t timeout, char **path, struct err *e)
{
	json_t *answer = NULL;
	enum err_code rc = ERR_OK;

	*path = NULL;
	if (has_unsaved_work(dir)) {
		rc = order_saved_stop(dir, timeout, &answer, e);
		if (rc == ERR_OK)
			*path = mem_strdup(json_str(answer, "path", ""));
		else if (!has_unsaved_work(dir))
			rc = ERR_OK;
	}
	if (*path && !json_flag(answer, "rested"))
		fprintf(stderr,
		    "ps-ctl: note: the workers could not rest for the checkpoint of step %lld; steps "
		    "after it, which the result may count, are not saved\n",
		    (long long)json_int(answer, "step", 0));
	json_decref(answer);
	return rc;
}

/* Write the checkpoint's model to RUN/model.safetensors, unless the job has ended meanwhile and
 * written a newer one. Returns the exit code. */
static int save_checkpoint_model(const char *dir, const char *checkpoint)
{
	char *model = rundir_path(dir, "model.safetensors");
	struct err e = { 0 };
	int code = 0;

	if (access(model, F_OK) != 0 && saved_write_model(checkpoint, model, &e) != ERR_OK) {
		fprintf(stderr, "ps-ctl: the model is saved only in the checkpoint %s: %s\n",
		    checkpoint, e.msg);
		code = err_exit_code(e.code);
	} else {
		fprintf(stderr, "ps-ctl: saved %s and %s\n", checkpoint, model);
	}
	free(model);
	return code;
}

/* ---- ending ---- */

/* Ask the coordinator of a cluster without a supervisor to stop it. False when it does not
 * answer. *result becomes the result, because nobody writes RUN/result.json; it stays NULL when the
 * coordinator does not tell it. It is asked for first: the coordinator may close its connections
 * as soon as it is told to stop. */
static bool ask_coordinator_to_stop(const char *dir, json_t **result)
{
	struct http_client *client = NULL;
	json_t *body = json_pack("{s:s}", "why", STOP_REASON);
	enum err_code rc = control_connect(dir, &client, NULL);

	if (rc == ERR_OK)
		rc = http_call(client, "GET", "/v1/result", NULL, STATUS_WAIT, NULL, result, NULL);
	/* A coordinator that has let this time pass does not get as much again, and one that has closed the
	 * connection is ending already. */
	if (client && rc != ERR_TIMEOUT && rc != ERR_CLOSED)
		rc = http_call(client, "POST", "/v1/stop", body, STATUS_WAIT, NULL, NULL, NULL);
	http_client_free(client);
	json_decref(body);
	/* A broken connection may be the effect of the stop. */
	return rc == ERR_OK || rc == ERR_CLOSED;
}

/* Make the result of a cluster that has written none. answer is the coordinator's result before the
 * end, or NULL. A new reference. */
static json_t *make_result(json_t *answer, bool forced, bool supervised)
{
	const char *reason = forced ? "killed before a result was written"
	    : supervised            ? "no result was written"
	    : answer                ? STOP_REASON
	                            : NULL;

	if (!answer)
		return run_result_of_status(NULL, "stopped", CAUSE_UNKNOWN, reason);
	if (!result_is_final(answer))
		run_result_set_state(answer, "stopped", CAUSE_UNKNOWN, reason);
	return json_incref(answer);
}

/* Print the result. supervised: a supervisor was to write it. answer: as in make_result. Returns
 * the exit code. */
static int report_end(const char *dir, json_t *answer, bool forced, bool supervised, bool json)
{
	json_t *result = result_read(dir, NULL);
	int code = result || forced || !supervised ? 0 : 1;

	if (!result)
		result = make_result(answer, forced, supervised);
	if (*json_str(result, "unsaved", "")) {
		fprintf(stderr, "ps-ctl: the model is not saved: %s\n",
		    json_str(result, "unsaved", ""));
		code = 1;
	}
	result_print(result, json);
	json_decref(result);
	return code;
}

static int end_cluster(const struct options *o, const char *dir)
{
	struct err e = { 0 };
	bool forced = false, supervised = shutdown_request(dir);
	json_t *answer = NULL;
	int code;

	/* A supervisor saves the result itself before it ends. */
	if ((!supervised && !ask_coordinator_to_stop(dir, &answer)) ||
	    !shutdown_await(dir, o->timeout ? o->timeout : END_WAIT)) {
		fprintf(stderr, "ps-ctl: %s did not end in time; terminating its processes\n", dir);
		forced = true;
	}
	code = forced && shutdown_force(dir, TERM_GRACE, &e) != ERR_OK
	    ? ctl_fail(&e)
	    : report_end(dir, answer, forced, supervised, o->json);
	json_decref(answer);
	return code;
}

/* Save and stop the job, end the cluster, and write the model. The checkpoint comes first: when it fails,
 * nothing is stopped. */
static int stop_cluster(const struct options *o, const char *dir)
{
	char *checkpoint = NULL;
	struct err e = { 0 };
	int code, saved;

	if (!o->discard &&
	    save_and_stop_job(dir, o->timeout ? o->timeout : SAVE_WAIT, &checkpoint, &e) !=
	        ERR_OK) {
		err_prefix(&e,
		    "%s %s, because its model cannot be saved (--discard stops it without saving)",
		    dir, describe_continuation(dir));
		return ctl_fail(&e);
	}
	code = end_cluster(o, dir);
	saved = checkpoint ? save_checkpoint_model(dir, checkpoint) : 0;
	free(checkpoint);
	return code ? code : saved;
}

static int run_stop(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct err e = { 0 };
	char *dir = NULL;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	code = control_find(o.dir, &dir, &e) == ERR_OK ? stop_cluster(&o, dir) : ctl_fail(&e);
	free(dir);
	return code;
}

const struct ctl_cmd ctl_cmd_stop = {
	"stop",
	{
	    .prog = "ps-ctl stop",
	    .args = NULL,
	    .about = "save the model of a cluster, stop it and print its result",
	    .more =
	        "Pauses the job, takes a checkpoint, and writes its model to RUN/model.safetensors. If that fails\n"
	        "or is interrupted, the cluster keeps running. Returns when all its processes have ended.\n"
	        "Processes that do not end in time get SIGTERM, and SIGKILL 5 s later.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .examples = "  ps-ctl stop\n  ps-ctl -C fashion.run stop --timeout 5s\n",
	},
	run_stop,
};
