/* SPDX-License-Identifier: ISC */
#include "session/probe.h"

#include <math.h>

#include "core/clock.h"
#include "core/mem.h"

#define PIECE     (256u << 10)
#define PIECES    4u
#define QUESTIONS 3u
/* After a piece that takes this long, measure no others: they would tell nothing more. */
#define ENOUGH     (NSEC_PER_SEC / 4)
#define CONNECTING (3 * NSEC_PER_SEC)
#define PATIENCE   (5 * NSEC_PER_SEC)

struct probe {
	struct conn *conn;
	const atomic_bool *stop;
	bool up;
	uint64_t asked, answered;
	struct err why;
};

static bool is_probe_over(void *ctx)
{
	const struct probe *p = ctx;

	return p->why.code || (p->stop && atomic_load(p->stop));
}

static void on_probe_live(void *ctx, const struct hs_server_info *server)
{
	(void)server;
	((struct probe *)ctx)->up = true;
}

/* Runs on the probing thread, inside conn_until. A refusal ends the probe through p->why;
 * records of other types are ignored. */
static enum conn_verdict on_probe_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct probe *p = ctx;

	(void)payload;
	if (r->type == REC_NACK)
		err_because(&p->why, ERR_UNSUPPORTED, CAUSE_VERSION,
		    "it does not answer probes: it runs another version of pskit");
	else if (r->type == REC_PROBED)
		p->answered = r->seq;
	return CONN_TAKEN;
}

static const struct conn_handler handler = { .live = on_probe_live, .record = on_probe_record };

static bool is_up_or_over(void *ctx)
{
	struct probe *p = ctx;

	return p->up || is_probe_over(p);
}

static bool has_answer_or_over(void *ctx)
{
	struct probe *p = ctx;

	return p->answered >= p->asked || is_probe_over(p);
}

/* Returns why the probe ended: the error that its callbacks have recorded, else ERR_STOPPED when
 * it was given up, else ERR_OK. e is written only for an error. */
static enum err_code probe_end_error(struct probe *p, struct err *e)
{
	if (p->why.code)
		*e = p->why;
	else if (is_probe_over(p))
		return err_set(e, ERR_STOPPED, "the attempt was cancelled");
	return p->why.code;
}

/* Send a probe of `up` bytes that asks for an answer of `down` bytes, and wait for the answer.
 * *took: ns. */
static enum err_code send_probe(struct probe *p, uint32_t up, uint32_t down, const uint8_t *body,
    int64_t *took, struct err *e)
{
	struct record r = { .type = REC_PROBE, .len = up, .total = down, .seq = ++p->asked };
	int64_t begin = clock_now();
	enum err_code rc;

	conn_send(p->conn, &r, body);
	rc = conn_write(p->conn, e);
	if (!rc)
		rc = conn_until(p->conn, has_answer_or_over, p, PATIENCE, e);
	*took = clock_now() - begin;
	return rc ? rc : probe_end_error(p, e);
}

/* Measure bytes per second: of the fastest piece, because the others may have met the job's
 * own traffic, and without the round-trip time, as far as it is known. */
static enum err_code measure_rate(struct probe *p, uint32_t up, uint32_t down, const uint8_t *body,
    double rtt, double *out, struct err *e)
{
	int64_t took = 0;
	enum err_code rc = ERR_OK;

	for (unsigned n = 0; !rc && n < PIECES && took < ENOUGH; n++) {
		double seconds;

		rc = send_probe(p, up, down, body, &took, e);
		seconds = (double)took / 1e9;
		seconds -= fmin(rtt, seconds / 2);
		if (!rc)
			*out = fmax(*out, (double)(up + down) / seconds);
	}
	return rc;
}

/* Fills rtt, up and down. The round trips come first, because measure_rate subtracts the
 * shortest one. After a failure, out->why has the reason, and what was measured before stays in
 * out. */
static enum err_code measure_link(struct probe *p, struct probe_result *out)
{
	uint8_t *body = mem_array(PIECE, 1);
	enum err_code rc = ERR_OK;
	int64_t took;

	for (unsigned i = 0; !rc && i < QUESTIONS; i++) {
		rc = send_probe(p, 0, 0, NULL, &took, &out->why);
		if (!rc && (!i || (double)took / 1e9 < out->rtt))
			out->rtt = (double)took / 1e9;
	}
	if (!rc)
		rc = measure_rate(p, PIECE, 0, body, out->rtt, &out->up, &out->why);
	if (!rc)
		rc = measure_rate(p, 0, PIECE, NULL, out->rtt, &out->down, &out->why);
	free(body);
	return rc;
}

void probe_link(const struct dial_target *to, const atomic_bool *stop, struct probe_result *out)
{
	struct probe p = { .stop = stop };
	struct record bye = { .type = REC_BYE };

	*out = (struct probe_result){ .stage = PROBE_CONNECT };
	if (dial_and_wait(to, CONNECTING, is_probe_over, &p, &handler, &p, &p.conn, &out->why))
		return;
	out->stage = PROBE_HANDSHAKE;
	if (!conn_until(p.conn, is_up_or_over, &p, PATIENCE, &out->why) &&
	    !probe_end_error(&p, &out->why)) {
		out->stage = PROBE_TRANSFER;
		if (!measure_link(&p, out))
			out->stage = PROBE_DONE;
		conn_send(p.conn, &bye, NULL);
		conn_write(p.conn, NULL);
	}
	conn_free(p.conn);
}

const char *probe_stage_name(enum probe_stage s)
{
	static const char *const name[] = { "connect", "handshake", "transfer", "done" };

	return name[s];
}
