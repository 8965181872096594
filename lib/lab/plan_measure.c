/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/control.h"
#include "core/clock.h"
#include "core/json.h"
#include "lab/plan.h"

#define TIMEOUT (5 * NSEC_PER_SEC)

static enum err_code get_again(struct http_client *c, const char *path, json_t **out, struct err *e)
{
	json_decref(*out);
	*out = NULL;
	return http_call(c, "GET", path, NULL, TIMEOUT, NULL, out, e);
}

static const json_t *find_worker_row(const json_t *list, const char *id)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)list, i, o)
		if (strcmp(json_str(o, "id", ""), id) == 0)
			return o;
	return NULL;
}

/* Adds what one worker did between two of its status rows. */
static void add_worker_sample(struct plan_sample *s, const json_t *was, const json_t *is)
{
	double steps = json_num(is, "step", 0) - json_num(was, "step", 0);

	if (steps < 1 || strcmp(json_str(is, "state", ""), "active") != 0)
		return;
	s->workers++;
	s->steps += steps;
#define SINCE(key) (json_num(is, key, 0) - json_num(was, key, 0))
	s->data += SINCE("data_seconds");
	s->compute += SINCE("compute_seconds");
	s->push += SINCE("push_seconds") + SINCE("encode_seconds");
	s->pull += SINCE("pull_seconds");
	s->wait += SINCE("wait_seconds");
	s->cpu += SINCE("cpu_seconds");
	s->pushed += SINCE("pushed_bytes");
	s->pulled += SINCE("pulled_bytes");
#undef SINCE
}

/* Divides the sums of a sample by its number of steps. */
static enum err_code average_sample(struct plan_sample *s, double seconds, struct err *e)
{
	if (s->steps < 3)
		return err_set(e, ERR_NOTREADY,
		    "the cluster's workers took %.0f step%s in %.1f s: too few to measure; try a longer --window",
		    s->steps, s->steps > 0 && s->steps < 2 ? "" : "s", seconds);
	s->step = seconds * s->workers / s->steps;
	s->data /= s->steps;
	s->compute /= s->steps;
	s->push /= s->steps;
	s->pull /= s->steps;
	s->wait /= s->steps;
	s->cpu /= s->steps;
	s->pushed /= s->steps;
	s->pulled /= s->steps;
	return ERR_OK;
}

/* True when any process of the list runs on another host. */
static bool is_any_elsewhere(const json_t *list)
{
	char here[64] = "";
	size_t i;
	json_t *o;

	gethostname(here, sizeof here - 1);
	json_array_foreach((json_t *)list, i, o) {
		const char *host = json_str(o, "host", "");

		if (*host && strcmp(host, here) != 0)
			return true;
	}
	return false;
}

/* Reads the status of all processes at the begin and at the end of the window, and computes the
 * differences. */
static enum err_code sample_cluster(struct http_client *c, double seconds, struct plan_sample *out,
    struct err *e)
{
	json_t *before = NULL, *after = NULL, *servers = NULL;
	enum err_code rc = get_again(c, "/v1/servers", &servers, e);
	int64_t begin;
	size_t i;
	json_t *o;

	if (!rc)
		rc = get_again(c, "/v1/workers", &before, e);
	begin = clock_now();
	/* The length of the window is a time by definition: there is no event to wait for. */
	if (!rc)
		clock_sleep((int)(seconds * 1e3));
	if (!rc)
		rc = get_again(c, "/v1/workers", &after, e);
	seconds = (double)(clock_now() - begin) / 1e9;
	if (!rc) {
		json_array_foreach(json_object_get(after, "workers"), i, o) {
			const json_t *was = find_worker_row(json_object_get(before, "workers"),
			    json_str(o, "id", ""));

			/* A worker that was started again counts from zero: skip it. */
			if (was && json_int(was, "pid", 0) == json_int(o, "pid", 0))
				add_worker_sample(out, was, o);
		}
		out->spread = is_any_elsewhere(json_object_get(after, "workers")) ||
		    is_any_elsewhere(json_object_get(servers, "servers"));
		json_array_foreach(json_object_get(servers, "servers"), i, o)
			out->parameters += json_num(o, "parameters", 0);
		rc = average_sample(out, seconds, e);
	}
	json_decref(before);
	json_decref(after);
	json_decref(servers);
	return rc;
}

/* On success *conf is the caller's to release. Without a job there are no steps to measure, which
 * is ERR_CONFIG. */
enum err_code plan_sample(const char *dir, double seconds, struct plan_sample *out,
    struct conf *conf, struct err *e)
{
	struct http_client *client = NULL;
	json_t *config = NULL;
	enum err_code rc = control_connect(dir, &client, e);

	*out = (struct plan_sample){ 0 };
	if (!rc)
		rc = get_again(client, "/v1/config", &config, e);
	if (!rc) {
		/* Remove the members that are not keys of the cluster file. */
		json_object_del(config, "v");
		json_object_del(config, "ts");
		json_object_del(config, "kind");
		rc = conf_from_json(config, conf, e);
	}
	if (!rc && !conf->has_job)
		rc = err_set(e, ERR_CONFIG, "this cluster has no job to measure");
	if (!rc)
		rc = sample_cluster(client, seconds, out, e);
	json_decref(config);
	http_client_free(client);
	return rc;
}

/* With all processes on one host, elapsed time includes waiting for a core: the worker's processor
 * time is used. With a host for each process, elapsed time is used. */
void plan_use_sample(struct plan *p, const struct conf *c, const struct plan_sample *s,
    const struct capacity_plan_costs *k)
{
	double batches = (double)(c->accumulate * c->local_steps);
	double all = p->place.cores ? s->cpu : s->data + s->compute, rest;
	struct sim_spec spec;

	capacity_plan_spec(p, c, k, &spec);
	/* Subtract the other work of a step: the rule and copies of local steps, and what else the
	 * process computes. */
	rest = spec.compute.seconds - batches * k->v[PLAN_batch];
	if (p->place.cores)
		rest += spec.make_push + spec.send_push + spec.take_pull + spec.ask;
	else if (p->place.worker.down <= 0 && s->pull > 2 * spec.take_pull)
		p->place.worker.up = p->place.worker.down = s->pulled / s->pull;
	p->place.compute.seconds = fmax(all - rest, 0.1 * all) / batches;
}
