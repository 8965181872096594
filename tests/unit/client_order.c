/* SPDX-License-Identifier: ISC */
/* What a client sends once more, when the layout has changed or a session has broken, goes
 * in an order that no server can be held up by: a push never before the CLOCK of the step
 * before it.  The server is a thread that notes what it hears. */
#include "ear_fixture.h"
#include "tap.h"

/* Pump the client until the server has heard n records in all. */
static bool heard(struct ear *x, struct client *c, unsigned n)
{
	int64_t end = clock_now() + 120 * NSEC_PER_SEC;
	unsigned now = 0;

	while (now < n && clock_now() < end) {
		client_poke(c);
		pthread_mutex_lock(&x->lock);
		now = x->n;
		pthread_mutex_unlock(&x->lock);
	}
	return now >= n;
}

/* Does the i-th record, a CLOCK, announce one run of partitions? */
static bool announces(struct ear *x, unsigned i)
{
	bool one;

	pthread_mutex_lock(&x->lock);
	one = i < x->n && x->len[i] == PAYLOAD_RUN_BYTES;
	pthread_mutex_unlock(&x->lock);
	return one;
}

static enum err_code relayed(struct client *c, struct ear *x, struct ear *relay, struct layout *l,
    uint32_t epoch)
{
	const struct view *decoded = NULL;
	struct err e;
	enum err_code rc = ear_view(x, relay, l, epoch, &decoded, &e);

	if (!rc)
		rc = client_apply_view(c, decoded, &e);
	view_release(decoded);
	if (rc)
		printf("# %s\n", e.msg);
	return rc;
}

static enum err_code view(struct client *c, struct ear *x, struct layout *l, uint32_t epoch)
{
	return relayed(c, x, NULL, l, epoch);
}

static const float g[4] = { 1, 2, 3, 4 };
static const uint8_t psk[32] = { 9 };
static struct identity id;
static struct log logger;
static struct layout l;

static struct client *client_with_deadline(int64_t deadline)
{
	struct client_config cfg = { .id = &id,
		.rank = 0,
		.incarnation = 7,
		.transport = transport_find("tcp"),
		.deadline = deadline,
		.log = &logger,
		.attend_fd = -1 };
	struct client *c;

	client_new(&cfg, &c, NULL);
	return c;
}

static struct client *client_open(void)
{
	return client_with_deadline(20 * NSEC_PER_SEC);
}

static void sent_again(void)
{
	struct client *c = client_open();
	struct ear x;
	struct err e;

	ear_open(&x, psk);
	ok(!view(c, &x, &l, 1), "a client, and a server that gives no receipts");
	ok(!client_push(c, &client_layout(c)->table[0], 0, 1, g, &e) &&
	        !client_clock(c, 0, 1, &e) &&
	        !client_push(c, &client_layout(c)->table[0], 1, 1, g, &e) && heard(&x, c, 3),
	    "a step, and a push of the next");
	ok(was(&x, 0, "1 PUSH 0") && was(&x, 1, "1 CLOCK 0") && was(&x, 2, "1 PUSH 1"),
	    "in this order");
	atomic_store(&x.answers, false);
	ok(!view(c, &x, &l, 2) && heard(&x, c, 6), "another layout: all is sent again");
	ok(was(&x, 3, "2 PUSH 0") && was(&x, 4, "2 CLOCK 0") && was(&x, 5, "2 PUSH 1"),
	    "in the same order");
	atomic_store(&x.hang_up, true);
	ok(heard(&x, c, 9), "the session breaks: all is sent again");
	ok(was(&x, 6, "2 PUSH 0") && was(&x, 7, "2 CLOCK 0") && was(&x, 8, "2 PUSH 1"),
	    "in the same order");
	ok(announces(&x, 1) && announces(&x, 4) && announces(&x, 7),
	    "each time the CLOCK announces the push of its step");
	atomic_store(&x.answers, true);
	atomic_store(&x.hang_up, true);
	ok(heard(&x, c, 12) && !client_clock(c, 1, 1, &e) && heard(&x, c, 13) &&
	        was(&x, 12, "2 CLOCK 1") && announces(&x, 12),
	    "when the CLOCK is answered the next follows, and announces the next push");
	atomic_store(&x.over, true);
	client_free(c);
	ear_close(&x);
}

/* What is pushed goes another way now, and the CLOCK that tells of it with it: a server that
 * heard it without would take the step for complete. */
static void another_way(void)
{
	struct client *c = client_open();
	struct ear x, relay;
	struct err e;
	float w[4];

	ear_open(&x, psk);
	ear_open(&relay, psk);
	atomic_store(&x.answers, false);
	ok(!view(c, &x, &l, 1) && !client_push(c, &client_layout(c)->table[0], 0, 1, g, &e) &&
	        !client_clock(c, 0, 1, &e) && heard(&x, c, 2),
	    "a step, and a server that does not answer");
	ok(!relayed(c, &x, &relay, &l, 2) && heard(&relay, c, 2) && was(&relay, 0, "2 PUSH 0") &&
	        was(&relay, 1, "2 CLOCK 0"),
	    "a relay comes, and is told all");
	ok(!client_want(c, &client_layout(c)->table[0], CLIENT_NOW, NULL, w, &e) &&
	        heard(&x, c, 3) && was(&x, 2, "2 PULL 0"),
	    "the server hears nothing more of the step");
	atomic_store(&x.over, true);
	atomic_store(&relay.over, true);
	client_free(c);
	ear_close(&x);
	ear_close(&relay);
}

/* Another layout may name a server for copies that it has not heard of at this step's CLOCK. */
static void copies_elsewhere(void)
{
	struct client *c = client_open();
	struct ear x;
	struct err e;

	ear_open(&x, psk);
	ok(!view(c, &x, &l, 1) && !client_push(c, &client_layout(c)->table[0], 0, 1, g, &e) &&
	        !client_clock(c, 0, 1, &e) && heard(&x, c, 2),
	    "a step, whose CLOCK is answered");
	atomic_store(&x.old, true);
	ok(!view(c, &x, &l, 2) && heard(&x, c, 4) && was(&x, 3, "2 CLOCK 0"),
	    "another layout: it is sent again");
	atomic_store(&x.hang_up, true);
	ok(heard(&x, c, 6) && was(&x, 5, "2 CLOCK 0"),
	    "and until there is an answer of this layout");
	atomic_store(&x.over, true);
	client_free(c);
	ear_close(&x);
}

/* A push that no server can take waits for a layout in which one can. */
static void nowhere(void)
{
	struct client *c = client_open();
	struct ear x;
	struct err e;

	ear_open(&x, psk);
	ok(!view(c, &x, &l, 1) && !client_push(c, &client_layout(c)->table[0], 0, 1, g, &e) &&
	        heard(&x, c, 1),
	    "a push without a receipt");
	l.table[0].run[0].chain[0] = 1; /* the view lists no such server */
	ok(!view(c, &x, &l, 2) &&
	        client_push(c, &client_layout(c)->table[0], 1, 1, g, &e) == ERR_NOTREADY,
	    "no server holds the partition: %s", e.msg);
	l.table[0].run[0].chain[0] = 0;
	ok(!view(c, &x, &l, 3) && heard(&x, c, 2) && was(&x, 1, "3 PUSH 0"),
	    "it is sent when one does, and was not sent before");
	atomic_store(&x.over, true);
	client_free(c);
	ear_close(&x);
}

static enum err_code no_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	(void)ctx, (void)ids, (void)rows, (void)n;
	return err_set(e, ERR_FAILED, "no rows were expected");
}

/* A call asks for all partitions of a table.  When one of them is on no server it fails, and the
 * answers of the others have no place any more. */
static void half_a_table(void)
{
	struct table rows = { .name = "rows", .sparse = true, .rows = 1000, .cols = 1 },
	             dense = { .name = "dense", .rows = 100000, .cols = 1 }, *sparse, *large;
	struct client *c = client_open();
	const struct layout *now;
	struct layout two = { 0 };
	struct ear x;
	struct err e;
	uint64_t ids[100];
	float *w = calloc(dense.rows, sizeof *w);

	for (uint64_t i = 0; i < 100; i++)
		ids[i] = i;
	ear_open(&x, psk);
	layout_reserve(&two);
	layout_add(&two, &rows, &sparse, NULL);
	layout_add(&two, &dense, &large, NULL);
	/* The view does not list the second server. */
	layout_place(&two, (const uint16_t[]){ 0, 1 }, 2, 1);
	ok(!view(c, &x, &two, 1) && sparse->nruns == 2 && large->nruns == 2,
	    "two tables, each with partitions that are on no server");
	now = client_layout(c);
	ok(client_scan(c, &now->table[0], 0, now->table[0].nparts, no_rows, NULL, &e) ==
	            ERR_NOTREADY &&
	        client_has_all(c),
	    "a scan fails and waits for no answer: %s", e.msg);
	ok(client_want_rows(c, &now->table[0], CLIENT_NOW, ids, 100, w, &e) == ERR_NOTREADY &&
	        client_has_all(c),
	    "so does a pull of rows: %s", e.msg);
	ok(client_want(c, &now->table[1], CLIENT_NOW, NULL, w, &e) == ERR_NOTREADY &&
	        client_has_all(c),
	    "and a pull of a dense table: %s", e.msg);
	atomic_store(&x.over, true);
	client_free(c);
	layout_release(&two);
	free(w);
	ear_close(&x);
}

/* The reason for which a session was given up is what a failed wait reports. */
static void garbled(void)
{
	struct client *c = client_with_deadline(NSEC_PER_SEC / 2);
	struct ear x;
	struct err e;
	float w[4];

	ear_open(&x, psk);
	atomic_store(&x.garbles, true);
	ok(!view(c, &x, &l, 1) &&
	        !client_want(c, &client_layout(c)->table[0], CLIENT_NOW, NULL, w, &e) &&
	        client_wait(c, CLIENT_NOW, &e) == ERR_UNREACH &&
	        strstr(e.msg, "a batch ends within a header"),
	    "a malformed answer: %s", e.msg);
	client_free(c);
	ear_close(&x);
}

/* A push that the relay cannot aggregate goes to the server, and so do its repetitions. */
static void past_the_relay(void)
{
	struct client *c = client_open();
	struct client_stats stats;
	struct ear x, relay;
	struct err e;

	ear_open(&x, psk);
	ear_open(&relay, psk);
	atomic_store(&relay.splits, true);
	ok(!relayed(c, &x, &relay, &l, 1) &&
	        !client_push(c, &client_layout(c)->table[0], 0, 1, g, &e) && heard(&relay, c, 1),
	    "a push to a relay");
	ok(heard(&x, c, 1) && was(&x, 0, "1 PUSH 0"), "which splits it: it goes to the server");
	client_stats(c, &stats);
	ok(stats.receipts[PUSH_SPLIT] == 1 && !client_has_all(c), "and waits for a receipt");
	ok(!relayed(c, &x, &relay, &l, 2) && heard(&x, c, 2) && was(&x, 1, "2 PUSH 0"),
	    "another layout: it goes to the server again");
	atomic_store(&x.over, true);
	atomic_store(&relay.over, true);
	client_free(c);
	ear_close(&x);
	ear_close(&relay);
}

int main(void)
{
	struct table shape = { .name = "w", .rows = 4, .cols = 1 }, *t;
	struct key_pair key;

	log_init(&logger, "client", 2, LOG_LEVEL_ERROR);
	key_pair_generate(&key);
	handshake_identity_init(&id.conn.hs, &key, psk);
	layout_reserve(&l);
	layout_add(&l, &shape, &t, NULL);
	layout_place(&l, (const uint16_t[]){ 0 }, 1, 1);
	sent_again();
	another_way();
	copies_elsewhere();
	nowhere();
	half_a_table();
	garbled();
	past_the_relay();
	layout_release(&l);
	return tap_done();
}
