/* SPDX-License-Identifier: ISC */
/* A pull whose answer names a place in published memory: the client copies from there, asks for the
 * values themselves when they have changed meanwhile, and believes no impossible place.  Client and
 * server take turns in one thread, so each change happens where the test says. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/keys.h"
#include "client/client.h"
#include "core/clock.h"
#include "core/endian.h"
#include "socket/net.h"
#include "socket/published.h"
#include "tap.h"
#include "wire/payload.h"

#define N 8192u

/* The server answers a pull that may be answered by a place in one of these ways. */
enum deed { NAMES, CHANGES_AFTER, STOPS_IN_CHANGE, NAMES_NO_PLACE, NAMES_LESS, INSISTS };

struct giver {
	struct conn_identity id;
	struct key_pair key;
	struct published *memory;
	float *w;
	int listener;
	char address[NET_TEXT];
	struct conn *conn;
	enum deed deed;
	unsigned by_place, whole; /* pulls that permit a place, and that do not */
	uint64_t version;         /* of the last answer */
	uint64_t since;           /* that the last pull named */
	bool ended;
};

static const uint8_t psk[32] = { 9 };
static struct identity id;
static struct log logger;
static struct layout l;
static float got[N];

static void set_values(struct giver *x, float value)
{
	published_begin_change(x->memory, x->w);
	for (size_t i = 0; i < N; i++)
		x->w[i] = value;
	published_end_change(x->memory, x->w);
}

static enum err_code admit(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e)
{
	(void)ctx, (void)key, (void)info, (void)e;
	reply->max_record = RECORD_MAX;
	reply->shares = true;
	return ERR_OK;
}

static void live(void *ctx, const struct hs_server_info *server)
{
	(void)ctx, (void)server;
}

static void answer_place(struct giver *x, struct record *out)
{
	struct payload_place at = { .bytes = N * 4 };
	uint8_t body[PAYLOAD_PLACE_BYTES];

	at.place = published_place(x->memory, x->w, &at.state);
	if (x->deed == NAMES_NO_PLACE)
		at.place = UINT32_MAX;
	if (x->deed == NAMES_LESS)
		at.bytes = 4;
	payload_put_place(body, &at);
	out->flags = RECORD_BY_REFERENCE;
	out->len = sizeof body;
	conn_send(x->conn, out, body);
	if (x->deed == CHANGES_AFTER)
		set_values(x, 2);
	if (x->deed == STOPS_IN_CHANGE) {
		published_begin_change(x->memory, x->w);
		x->w[0] = -1;
	}
}

static void take_pull(struct giver *x, const struct record *r, const uint8_t *payload)
{
	struct record out = { .type = REC_PULLED,
		.seq = r->seq,
		.epoch = r->epoch,
		.generation = r->generation,
		.total = ++x->version };
	float values[N];

	if (r->type != REC_PULL)
		return;
	x->since = r->len == PAYLOAD_RUN_BYTES + 8 ? get_le64(payload + PAYLOAD_RUN_BYTES) : 0;
	x->by_place += (r->flags & RECORD_BY_REFERENCE) != 0;
	x->whole += !(r->flags & RECORD_BY_REFERENCE);
	if (r->flags & RECORD_BY_REFERENCE || (x->deed == INSISTS && x->by_place)) {
		if (x->deed == INSISTS)
			set_values(x, 3);
		answer_place(x, &out);
		if (x->deed == INSISTS)
			set_values(x, 4);
		return;
	}
	for (size_t i = 0; i < N; i++)
		values[i] = 5;
	out.len = sizeof values;
	conn_send(x->conn, &out, values);
}

static enum conn_verdict record(void *ctx, const struct record *r, uint8_t *payload)
{
	const uint8_t *body;
	struct record sub;
	struct err e;
	size_t at = 0;

	if (r->type != REC_BATCH)
		take_pull(ctx, r, payload);
	else
		while (payload_batch_next(payload, r->len, &at, &sub, &body, &e))
			take_pull(ctx, &sub, body);
	return CONN_TAKEN;
}

static const struct conn_handler handler = { .admit = admit, .live = live, .record = record };

static void serve_giver(struct giver *x)
{
	int fd = x->conn ? -1 : net_accept(x->listener);

	if (fd >= 0) {
		x->conn = conn_accept(fd, &x->id, SUITE_POLY1305, 1, &handler, x);
		conn_publish(x->conn, x->memory);
	}
	if (x->conn && (conn_read(x->conn, NULL) || conn_write(x->conn, NULL))) {
		conn_free(x->conn);
		x->conn = NULL;
		x->ended = true;
	}
}

static void giver_open(struct giver *x, enum deed deed, const char *dir)
{
	char path[NET_TEXT];

	memset(x, 0, sizeof *x);
	x->deed = deed;
	key_pair_generate(&x->key);
	handshake_identity_init(&x->id.hs, &x->key, psk);
	snprintf(x->address, sizeof x->address, "%s/server.sock", dir);
	snprintf(path, sizeof path, "unix:%.*s", NET_TEXT - 6, x->address);
	if (published_new(&x->memory, NULL) ||
	    net_listen(path, 8, &x->listener, (char[NET_TEXT]){ 0 }, NULL))
		abort();
	x->w = published_take(x->memory, N * 4);
	set_values(x, 1);
}

static void giver_close(struct giver *x)
{
	conn_free(x->conn);
	published_free(x->memory);
	close(x->listener);
	unlink(x->address);
}

static enum err_code know_giver(struct client *c, const struct giver *x, uint32_t generation)
{
	const struct view *view = NULL;
	char key[48];
	enum err_code rc;
	json_t *v;

	key_to_text(x->key.pk, key);
	l.epoch = l.generation = generation;
	v = json_pack("{s:[{s:b, s:s, s:s, s:s, s:s}], s:o}", "servers", "live", 1, "tcp",
	    "127.0.0.1:1", "unix", x->address, "key", key, "incarnation", "77", "layout",
	    layout_to_json(&l));
	rc = view_decode(v, &view, NULL);
	json_decref(v);
	if (!rc)
		rc = client_apply_view(c, view, NULL);
	view_release(view);
	return rc;
}

static struct client *client_open(const struct giver *x)
{
	struct client_config cfg = { .id = &id,
		.rank = 0,
		.incarnation = 7,
		.transport = transport_find("shm"),
		.deadline = 20 * NSEC_PER_SEC,
		.log = &logger,
		.attend_fd = -1 };
	struct client *c;

	client_new(&cfg, &c, NULL);
	if (know_giver(c, x, 1))
		abort();
	return c;
}

/* Pull until the last values have come, or the session ends. */
static bool pull_from(struct giver *x, struct client *c, const float *base)
{
	const struct table *t = &client_layout(c)->table[0];
	int64_t end = clock_now() + 120 * NSEC_PER_SEC;
	uint64_t before = client_version(c, t, 0), now;
	struct err e;

	if (client_want(c, t, CLIENT_NOW, base, got, &e))
		return false;
	x->ended = false;
	do {
		client_poke(c);
		serve_giver(x);
		now = client_version(c, t, 0);
	} while ((now == before || now != x->version) && !x->ended && clock_now() < end);
	return now == x->version && now != before;
}

static bool pull(struct giver *x, struct client *c)
{
	return pull_from(x, c, NULL);
}

static bool has(float value)
{
	size_t i = 0;

	while (i < N && got[i] == value)
		i++;
	return i == N;
}

/* The first pull is sent before the memory is known. */
static void meet(struct giver *x, struct client *c)
{
	if (!pull(x, c) || x->by_place || x->whole != 1)
		abort();
}

static void one(enum deed deed, const char *dir, float value, unsigned whole, const char *what)
{
	struct client_stats before, after;
	struct giver x;
	struct client *c;

	giver_open(&x, deed, dir);
	c = client_open(&x);
	meet(&x, c);
	memset(got, 0, sizeof got);
	client_stats(c, &before);
	ok(pull(&x, c) && has(value) && x.by_place == 1 && x.whole == 1 + whole, "%s", what);
	client_stats(c, &after);
	ok(after.pulled_bytes - before.pulled_bytes >= sizeof got,
	    "and the values count as received");
	client_free(c);
	giver_close(&x);
}

/* The servers count versions again when the cluster has been rolled back. */
static void rolled_back(const char *dir)
{
	struct giver x;
	struct client *c;

	giver_open(&x, NAMES, dir);
	c = client_open(&x);
	meet(&x, c);
	ok(pull_from(&x, c, got) && x.since == 1,
	    "a pull with a base names the version that it has");
	if (know_giver(c, &x, 2))
		abort();
	x.version = 0;
	ok(pull_from(&x, c, got) && x.since == UINT64_MAX,
	    "but none of another generation of the cluster");
	ok(pull_from(&x, c, got) && x.since == 1, "and the next one names the new version");
	client_free(c);
	giver_close(&x);
}

static void lies(enum deed deed, const char *dir, const char *what)
{
	struct giver x;
	struct client *c;

	giver_open(&x, deed, dir);
	c = client_open(&x);
	meet(&x, c);
	ok(!pull(&x, c) && x.ended, "%s ends the session", what);
	client_free(c);
	giver_close(&x);
}

int main(void)
{
	struct table shape = { .name = "w", .rows = N, .cols = 1 }, *t;
	char dir[] = "/tmp/ps-place-XXXXXX";
	struct key_pair key;

	log_init(&logger, "client", 2, LOG_LEVEL_ERROR);
	key_pair_generate(&key);
	handshake_identity_init(&id.conn.hs, &key, psk);
	layout_reserve(&l);
	layout_add(&l, &shape, &t, NULL);
	layout_place(&l, (const uint16_t[]){ 0 }, 1, 1);
	if (!mkdtemp(dir))
		abort();
	id.run_dir = dir;
	one(NAMES, dir, 1, 0, "values are copied from the place that the answer names");
	one(CHANGES_AFTER, dir, 5, 1, "values that have changed meanwhile are asked for once more");
	one(STOPS_IN_CHANGE, dir, 5, 1, "so are those whose change never ends");
	lies(NAMES_NO_PLACE, dir, "a place beyond the memory");
	lies(NAMES_LESS, dir, "a place of another size");
	lies(INSISTS, dir, "a place in answer to a pull that asks for the values");
	rolled_back(dir);
	layout_release(&l);
	rmdir(dir);
	return tap_done();
}
