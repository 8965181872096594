/* SPDX-License-Identifier: ISC */
#include "replica/quality.h"

#include <math.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/mem.h"
#include "http/client.h"
#include "msg/cluster_status.h"
#include "session/control.h"

#define EVERY    NSEC_PER_SEC
#define PATIENCE (3 * NSEC_PER_SEC)

struct quality {
	struct serve_if condition;
	char *text; /* as the user has written it */
	struct http_client *client;
	int64_t asked; /* clock_now of the last answer; 0: never */
	bool good;
	char why[160];
};

static enum err_code connect_control(const struct identity *id, struct http_client **out,
    struct err *e)
{
	const struct http_target target = { .addr = id->http,
		.server_pk = id->server_key,
		.keys = &id->conn.hs.key,
		.psk = id->conn.hs.psk };

	if (id->run_dir)
		return control_connect(id->run_dir, out, e);
	if (!id->http || !*id->http)
		return err_set(e, ERR_CONFIG,
		    "the join file has no address of the control plane: set `http` in the cluster file "
		    "of the source");
	return http_client_new(&target, out, e);
}

enum err_code quality_open(const char *condition, const struct identity *id, struct quality **out,
    struct err *e)
{
	struct quality *q = mem_alloc(sizeof *q);
	enum err_code rc = serve_if_parse(condition, &q->condition, e);

	q->text = mem_strdup(condition);
	if (!rc)
		rc = connect_control(id, &q->client, e);
	if (rc) {
		err_prefix(e, "serve_if");
		quality_close(q);
		q = NULL;
	}
	*out = q;
	return rc;
}

void quality_close(struct quality *q)
{
	if (!q)
		return;
	http_client_free(q->client);
	free(q->text);
	free(q);
}

/* The value of the measure; NaN: it is not known. The newest evaluation has the metrics. */
static double measured(const struct quality *q, const struct cluster_progress *p)
{
	switch (q->condition.kind) {
	case SERVE_IF_TRAIN_LOSS:
		return p->train_loss;
	case SERVE_IF_PROGRESSIVE_LOSS:
		return p->progressive_loss;
	case SERVE_IF_METRIC:
		return json_num(p->eval, q->condition.measure, (double)NAN);
	}
	return (double)NAN;
}

static void take_progress(struct quality *q, const struct cluster_progress *p)
{
	double value = measured(q, p);

	q->good = serve_if_holds(&q->condition, value);
	if (isnan(value))
		snprintf(q->why, sizeof q->why,
		    "the source has not measured %s yet, and serve_if is \"%.60s\"",
		    q->condition.measure, q->text);
	else
		snprintf(q->why, sizeof q->why, "%s is %.6g, and serve_if is \"%.60s\"",
		    q->condition.measure, value, q->text);
}

bool quality_is_good(struct quality *q, char *why, size_t room)
{
	struct cluster_progress progress;
	json_t *status = NULL;
	struct err e;

	if (!q)
		return true;
	if (!q->asked || clock_now() - q->asked >= EVERY) {
		if (http_call(q->client, "GET", "/v1/status", NULL, PATIENCE, NULL, &status, &e) ||
		    cluster_progress_decode(status, &progress, &e)) {
			q->good = false;
			snprintf(q->why, sizeof q->why, "its measures are not known: %.120s",
			    e.msg);
		} else {
			take_progress(q, &progress);
		}
		json_decref(status);
		q->asked = clock_now();
	}
	snprintf(why, room, "%s", q->why);
	return q->good;
}
