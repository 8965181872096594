/* SPDX-License-Identifier: ISC */
#ifndef EAR_FIXTURE_H
#define EAR_FIXTURE_H

/* A server that notes the records of its sessions, one session after the other, in a thread of its
 * own. It answers CLOCKs, and hangs up when it is told to. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "auth/keys.h"
#include "client/client.h"
#include "core/clock.h"
#include "socket/net.h"
#include "sync/push_status.h"
#include "wire/payload.h"

enum { HEARD = 64 };

struct ear;
typedef void ear_answer_fn(struct ear *x, const struct record *r, const uint8_t *payload);

struct ear {
	struct conn_identity id;
	struct key_pair key;
	int listener;
	char addr[NET_TEXT];
	struct conn *conn;
	pthread_t thread;
	pthread_mutex_t lock; /* heard, len, n */
	pthread_cond_t came;  /* n has grown */
	char heard[HEARD][24];
	uint32_t len[HEARD]; /* of the payloads */
	unsigned n;
	/* old: answers are of the epoch before; splits: receipts say that a relay cannot aggregate;
	 * garbles: a pull is answered by a malformed BATCH, and no other session is accepted */
	/* called for each record, in the thread of the server; may be NULL */
	_Atomic(ear_answer_fn *) answer;
	_Atomic bool answers, old, splits, garbles, garbled, hang_up, over;
};

static inline enum err_code ear_admit(void *ctx, const uint8_t key[32],
    const struct hs_client_info *info, struct hs_server_info *reply, struct err *e)
{
	(void)ctx, (void)key, (void)info, (void)e;
	reply->max_record = RECORD_MAX;
	return ERR_OK;
}

static inline void ear_live(void *ctx, const struct hs_server_info *server)
{
	(void)ctx, (void)server;
}

static inline void ear_note(struct ear *x, const struct record *r, const uint8_t *payload)
{
	ear_answer_fn *answer = atomic_load(&x->answer);
	struct record out = { .type = REC_CLOCKED,
		.step = r->step,
		.seq = r->seq,
		.epoch = r->epoch - atomic_load(&x->old),
		.generation = r->generation };

	pthread_mutex_lock(&x->lock);
	x->len[x->n % HEARD] = r->len;
	if (x->n < HEARD)
		snprintf(x->heard[x->n++], sizeof *x->heard, "%u %s %llu", r->epoch,
		    record_type_name(r->type), (unsigned long long)r->step);
	pthread_cond_broadcast(&x->came);
	pthread_mutex_unlock(&x->lock);
	if (answer)
		answer(x, r, payload);
	if (r->type == REC_PULL && atomic_load(&x->garbles)) {
		atomic_store(&x->garbled, true);
		conn_send(x->conn, &(struct record){ .type = REC_BATCH, .len = 10 }, "ten bytes.");
	}
	if (r->type == REC_CLOCK && atomic_load(&x->answers))
		conn_send(x->conn, &out, NULL);
	if (r->type == REC_PUSH && atomic_load(&x->splits)) {
		struct buf body = BUF_INIT;

		payload_put_receipt(&body,
		    &(struct payload_receipt){ .table = r->table,
		        .status = PUSH_SPLIT,
		        .part = r->part,
		        .step = r->step });
		out.type = REC_RECEIPT;
		out.len = (uint32_t)body.len;
		conn_send(x->conn, &out, body.data);
		buf_release(&body);
	}
}

static inline enum conn_verdict ear_record(void *ctx, const struct record *r, uint8_t *payload)
{
	const uint8_t *body;
	struct record sub;
	struct err e;
	size_t at = 0;

	if (r->type != REC_BATCH)
		ear_note(ctx, r, payload);
	else
		while (payload_batch_next(payload, r->len, &at, &sub, &body, &e))
			ear_note(ctx, &sub, body);
	return CONN_TAKEN;
}

static const struct conn_handler ear_handler = { .admit = ear_admit,
	.live = ear_live,
	.record = ear_record };

static inline bool ear_is_over(void *ctx)
{
	struct ear *x = ctx;

	return atomic_load(&x->over) || atomic_exchange(&x->hang_up, false);
}

/* One session after the other. */
static inline void *ear_serve(void *ctx)
{
	struct ear *x = ctx;

	while (!atomic_load(&x->over) && !atomic_load(&x->garbled)) {
		struct pollfd p = { x->listener, POLLIN, 0 };
		int fd = poll(&p, 1, 50) == 1 ? net_accept(x->listener) : -1;

		if (fd < 0)
			continue;
		x->conn = conn_accept(fd, &x->id, SUITE_POLY1305, 1, &ear_handler, x);
		conn_until(x->conn, ear_is_over, x, 60 * NSEC_PER_SEC, NULL);
		conn_free(x->conn);
	}
	return NULL;
}

static inline void ear_open(struct ear *x, const uint8_t *psk)
{
	memset(x, 0, sizeof *x);
	key_pair_generate(&x->key);
	handshake_identity_init(&x->id.hs, &x->key, psk);
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->came, NULL);
	atomic_store(&x->answers, true);
	if (net_listen("127.0.0.1:0", 8, &x->listener, x->addr, NULL) ||
	    pthread_create(&x->thread, NULL, ear_serve, x))
		abort();
}

static inline void ear_close(struct ear *x)
{
	atomic_store(&x->over, true);
	pthread_join(x->thread, NULL);
	close(x->listener);
	pthread_mutex_destroy(&x->lock);
	pthread_cond_destroy(&x->came);
}

/* Wait until the server has heard n records in all. */
static inline bool ear_await(struct ear *x, unsigned n)
{
	struct timespec end;
	bool heard;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 120;
	pthread_mutex_lock(&x->lock);
	while (x->n < n && !rc)
		rc = pthread_cond_timedwait(&x->came, &x->lock, &end);
	heard = x->n >= n;
	pthread_mutex_unlock(&x->lock);
	return heard;
}

/* Was the i-th record "EPOCH TYPE STEP"? */
static inline bool was(struct ear *x, unsigned i, const char *what)
{
	bool same;

	pthread_mutex_lock(&x->lock);
	same = i < x->n && strcmp(x->heard[i], what) == 0;
	if (!same)
		printf("# %u: \"%s\", not \"%s\"\n", i, i < x->n ? x->heard[i] : "", what);
	pthread_mutex_unlock(&x->lock);
	return same;
}

static inline json_t *place_of(const struct ear *x)
{
	char key[48];

	key_to_text(x->key.pk, key);
	return json_pack("[{s:b, s:s, s:s, s:s}]", "live", 1, "tcp", x->addr, "key", key,
	    "incarnation", "77");
}

/* The view of a layout of this epoch, in which x is the only server; relay, if it is not NULL, is the
 * relay of rank 0. */
static inline enum err_code ear_view(const struct ear *x, const struct ear *relay, struct layout *l,
    uint32_t epoch, const struct view **out, struct err *e)
{
	enum err_code rc;
	json_t *v;

	l->epoch = epoch;
	l->generation = 1;
	v = json_pack("{s:o, s:o, s:{s:i}, s:o}", "servers", place_of(x), "relays",
	    relay ? place_of(relay) : json_array(), "worker", "relay", relay ? 0 : -1, "layout",
	    layout_to_json(l));
	rc = view_decode(v, out, e);
	json_decref(v);
	return rc;
}

#endif
