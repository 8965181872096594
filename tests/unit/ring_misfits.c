/* SPDX-License-Identifier: ISC */
#include "ring_fixture.h"

#include "allreduce/ring_state.h"
#include "wire/payload.h"

/* All-reduce among members that do not do the same, or whose records are wrong, and with
 * strangers at the door: an error, a reason, and nobody waits for ever. */

static void *other_size(void *ctx)
{
	struct sailor *s = ctx;

	s->rc = ring_reduce(s->ring, step, s->in, s->index ? 900 : 1000, 1, &s->mean, &s->total,
	    &s->e);
	return NULL;
}

static void *other_epoch(void *ctx)
{
	struct sailor *s = ctx;

	s->e.code = ERR_OK;
	s->rc = ring_form(s->ring, s->index ? epoch : epoch + 1, s->crew->member, s->crew->n,
	    &s->e);
	return NULL;
}

static void *other_members(void *ctx)
{
	struct sailor *s = ctx;
	struct ring_member m[CREW_MAX];

	memcpy(m, s->crew->member, sizeof m);
	if (s->index == 2)
		m[1].incarnation++;
	s->e.code = ERR_OK;
	s->rc = ring_form(s->ring, epoch, m, s->crew->n, &s->e);
	return NULL;
}

static void misfits(void)
{
	struct sailor *s;
	struct crew c;

	crew_open(&c, 2, "unix", 4 * NSEC_PER_SEC, 1, 4096);
	s = c.sailor;
	left_out = 0;
	formed(&c);
	vectors(&c, 1000);
	crew_each(&c, other_size, 0);
	ok(s[0].rc && s[1].rc && (s[0].rc == ERR_PROTO || s[1].rc == ERR_PROTO),
	    "vectors of unlike length: an error (%s)",
	    s[0].rc == ERR_PROTO ? s[0].e.msg : s[1].e.msg);
	epoch++;
	crew_each(&c, other_epoch, 0);
	ok(s[1].rc == ERR_STALE && s[0].rc == ERR_UNREACH,
	    "one is an epoch ahead: the other hears of it (%s), and it waits (%s)", s[1].e.msg,
	    s[0].e.msg);
	epoch += 2;
	ok(formed(&c), "in the next epoch they meet");
	crew_each(&c, reduce, 0);
	ok(all_well(&c) && right(&c, 3), "and reduce");
	ok(ring_form(s[0].ring, epoch - 1, c.member, 2, &s[0].e) == ERR_STALE,
	    "an older epoch is refused: %s", s[0].e.msg);
	ok(ring_form(s[0].ring, epoch + 1, c.member + 1, 1, &s[0].e) == ERR_FENCED,
	    "and a ring without oneself: %s", s[0].e.msg);
	step++;
	ok(ring_reduce(s[0].ring, step - 2, s[0].in, 1000, 1, &s[0].mean, &s[0].total, &s[0].e) ==
	        ERR_STALE,
	    "and a step that is over: %s", s[0].e.msg);
	/* Nobody else takes part. */
	ok(ring_reduce(s[0].ring, step, s[0].in, c.floats, 1, &s[0].mean, &s[0].total, &s[0].e) ==
	        ERR_TIMEOUT,
	    "a wait has an end: %s", s[0].e.msg);
	crew_close(&c);

	crew_open(&c, 3, "tcp", 4 * NSEC_PER_SEC, 1, 4096);
	epoch++;
	crew_each(&c, other_members, 0);
	ok(c.sailor[2].rc && c.sailor[0].rc, "unlike lists of members are found out: %s",
	    c.sailor[2].e.msg);
	crew_close(&c);
}

/* A member of the ring whose records are not what they should be. */
static struct record bad;

static void *rogue(void *ctx)
{
	static const uint8_t payload[65536];
	struct sailor *s = ctx;
	struct ring *r = s->ring;

	form(s);
	if (s->index == 0 || s->rc)
		return s->rc ? NULL : reduce(s);
	conn_send(r->link[0].out, &bad, payload);
	while (conn_queued(r->link[0].out) && conn_write(r->link[0].out, NULL) == ERR_OK)
		;
	return NULL;
}

/* The record that is right, with one thing wrong. */
static void malformed(void)
{
	static const char *const what[] = { "another type", "another epoch", "an older step",
		"another length of vector", "another offset", "a longer slice", "no floats",
		"a result instead of a part", "a greeting again" };

	for (unsigned i = 0; i < sizeof what / sizeof *what; i++) {
		struct crew c;
		bool told;

		crew_open(&c, 2, "tcp", 20 * NSEC_PER_SEC, 1, 4096);
		left_out = 0;
		vectors(&c, 8192);
		epoch++;
		bad = (struct record){ .type = i == 0 ? REC_PUSH
			    : i == 7                  ? REC_RING_COPY
			    : i == 8                  ? REC_RING_HELLO
			                              : REC_RING_SUM,
			.epoch = epoch - (i == 1),
			.step = step - (i == 2),
			.seq = 8192 + (i == 3),
			.offset = 4096 * 4 + (i == 4 ? 4 : 0),
			.len = i == 6 || i == 8 ? 0 : 4096 * 4 + (i == 5 ? 4 : 0),
			.total = 1 };
		crew_each(&c, rogue, 0);
		told = c.sailor[0].rc == ERR_PROTO && c.sailor[0].took < 2 * NSEC_PER_SEC;
		ok(told, "%s: %s", what[i], c.sailor[0].e.msg);
		crew_close(&c);
	}
}

/* ---- a greeting of an epoch that is over ---- */

struct caller {
	struct conn *conn;
	struct record hello;
	enum err_code told; /* of a NACK; ERR_OK: a greeting, or nothing */
	bool answered;
};

static void caller_live(void *ctx, const struct hs_server_info *info)
{
	struct caller *k = ctx;

	(void)info;
	conn_send(k->conn, &k->hello, NULL);
}

static enum conn_verdict caller_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct caller *k = ctx;
	struct err e = { 0 };

	k->answered = true;
	if (r->type == REC_NACK)
		k->told = payload_get_nack(payload, r->len, &e);
	return CONN_TAKEN;
}

static bool caller_answered(void *ctx)
{
	return ((struct caller *)ctx)->answered;
}

static const struct conn_handler caller_handler = { .live = caller_live, .record = caller_record };

/* Member 1 calls by hand, as if it had not heard of the newest epoch. */
static void *call_late(void *ctx)
{
	struct sailor *s = ctx;
	struct hs_client_info info = { .incarnation = 101, .rank = RANK(1) };
	struct caller k = {
		.hello = { .type = REC_RING_HELLO, .epoch = epoch - 1, .seq = s->ring->digest }
	};
	int fd;

	if (s->index == 0)
		return form(ctx);
	s->rc = ERR_UNREACH;
	if (net_connect(s->crew->member[0].tcp, &fd, &s->e))
		return NULL;
	k.conn = conn_dial(fd, &s->id, s->crew->member[0].key, &info, &caller_handler, &k);
	conn_until(k.conn, caller_answered, &k, 60 * NSEC_PER_SEC, &s->e);
	conn_free(k.conn);
	s->rc = k.answered ? k.told : ERR_UNREACH;
	return NULL;
}

static void old_greeting(void)
{
	struct crew c;

	crew_open(&c, 2, "tcp", 4 * NSEC_PER_SEC, 1, 4096);
	left_out = 0;
	formed(&c);
	/* Its listener is not to answer for it. */
	ring_end_sessions(c.sailor[1].ring);
	epoch++;
	crew_each(&c, call_late, 0);
	ok(c.sailor[1].rc == ERR_STALE && c.sailor[0].rc == ERR_UNREACH,
	    "a greeting of an epoch that is over is refused (%s), and does not count",
	    err_name(c.sailor[1].rc));
	crew_close(&c);
}

/* Strangers who connect and say nothing, or nonsense, hold nobody up. */
static void strangers(void)
{
	struct crew c;
	int fd[200], n = 0;

	crew_open(&c, 2, "tcp", 20 * NSEC_PER_SEC, 1, 4096);
	left_out = 0;
	for (; n < 200; n++) {
		static const uint8_t noise[300] = { 0x50 };

		if (net_connect(c.member[n % 2].tcp, &fd[n], NULL))
			break;
		if (n & 2 && write(fd[n], noise, sizeof noise) < 0)
			break;
	}
	ok(n == 200 && formed(&c), "200 strangers at the doors: the members meet");
	vectors(&c, 100000);
	crew_each(&c, reduce, 0);
	ok(all_well(&c) && right(&c, 3), "and reduce");
	while (n-- > 0)
		close(fd[n]);
	crew_close(&c);
}

int main(void)
{
	if (key_init(NULL))
		return 1;
	misfits();
	malformed();
	old_greeting();
	strangers();
	return tap_done();
}
