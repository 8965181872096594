/* SPDX-License-Identifier: ISC */
#include "core/endian.h"
#include "tests/fuzz/coordinator.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/peer.h"

/* Any bytes are records or an error.  The first byte of an input says how the
 * rest is fed:
 *   0 mod 4  a header to the decoder
 *   1 mod 4  raw bytes to a server, from a stranger
 *   2 mod 4  records to a server, from a peer that has its keys, payloads clear
 *   3 mod 4  the same, payloads sealed
 * and a script of records is, again and again:
 *   u8 how, below; u16 length of the payload, or a whole header of 64 bytes;
 *   then the payload, cut where the input ends */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);

enum how {
	HOW_TYPE = 31,   /* type of a header that is made here */
	HOW_HEADER = 32, /* the header stands in the input; its part says who speaks */
	HOW_BAD_TAG = 64,
	HOW_CUT = 128, /* the server reads in the midst of it */
};

struct world {
	struct peer peer;
	/* what is to come out: the last record, not yet delivered */
	const uint8_t *head, *payload;
	uint8_t *place;
	bool live, due, held, dropped;
	unsigned admitted;
	struct coordinator *coordinator; /* hears what CTL says */
};

/* ---- the decoder ---- */

static void decode(const uint8_t *data, size_t n)
{
	uint8_t head[RECORD_HEADER] = { 0 }, again[RECORD_HEADER];
	struct record r;
	struct err e = { 0 };

	memcpy(head, data, n < sizeof head ? n : sizeof head);
	if (record_decode(head, &r, &e)) {
		check(e.code == ERR_PROTO && e.msg[0]);
		return;
	}
	check(r.len <= RECORD_MAX && record_type_name(r.type));
	record_encode(&r, again);
	check(memcmp(head, again, sizeof head) == 0);
	for (unsigned role = 0; role < 8; role++)
		check(!record_role_may(r.type, role) || (role >= 1 && role <= 6));
}

/* ---- the server's handler ---- */

static enum err_code admit(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e)
{
	struct world *w = ctx;

	(void)key, (void)reply, (void)e;
	check(info->rank == 5);
	w->admitted++;
	return ERR_OK;
}

static void live(void *ctx, const struct hs_server_info *server)
{
	struct world *w = ctx;

	check(!server && w->admitted == 1 && !w->live);
	w->live = true;
}

/* Every second length gets memory of exact size, the others the conn's own. */
static uint8_t *place(void *ctx, const struct record *r)
{
	struct world *w = ctx;

	check(r->len > 0 && r->len <= RECORD_MAX);
	free(w->place);
	w->place = r->len % 2 ? malloc(r->len) : NULL;
	return w->place;
}

/* Only what was sent whole and with the right tags comes here, once. */
static enum conn_verdict record(void *ctx, const struct record *r, uint8_t *payload)
{
	uint8_t head[RECORD_HEADER];
	struct world *w = ctx;

	record_encode(r, head);
	check(w->live && w->due && memcmp(head, w->head, sizeof head) == 0);
	check(r->type != REC_BYE && !(r->flags & RECORD_TO_CLIENT));
	check(!r->len || memcmp(payload, w->payload, r->len) == 0);
	w->held = !w->held && r->seq % 2;
	if (w->held)
		return CONN_HOLD;
	w->due = false;
	if (r->type != REC_CTL)
		return CONN_TAKEN;
	if (!w->coordinator)
		w->coordinator = coordinator_begin(r->step % 2);
	w->dropped = !coordinator_hear(w->coordinator, r->part, payload, r->len);
	return w->dropped ? CONN_DROP : CONN_TAKEN;
}

static const struct conn_handler handler = { .admit = admit,
	.live = live,
	.place = place,
	.record = record };

static void open_world(struct world *w, enum suite suite)
{
	peer_begin(&w->peer, suite, &handler, w);
}

static void close_world(struct world *w)
{
	peer_end(&w->peer);
	free(w->place);
	coordinator_end(w->coordinator);
}

/* ---- strangers ---- */

static void stranger(const uint8_t *data, size_t n)
{
	struct world w = { 0 };
	enum err_code rc;

	open_world(&w, SUITE_POLY1305);
	rc = peer_feed(&w.peer, data, n);
	if (!rc)
		rc = peer_turn(&w.peer);
	/* The challenge is fresh: no bytes thought of before can be right. */
	check(!w.live && !w.admitted && !conn_is_live(w.peer.server) &&
	    conn_queued(w.peer.server) == 0);
	check(n < HS_MSG1_BYTES ? rc == ERR_OK : rc == ERR_PROTO || rc == ERR_AUTH);
	shutdown(w.peer.fd, SHUT_WR);
	check(rc || peer_turn(&w.peer) == ERR_CLOSED);
	close_world(&w);
}

/* ---- records ---- */

struct input {
	const uint8_t *p;
	size_t left;
};

static size_t take(struct input *in, void *out, size_t n)
{
	size_t k = n < in->left ? n : in->left;

	memset(out, 0, n);
	memcpy(out, in->p, k);
	in->p += k;
	in->left -= k;
	return k;
}

/* The next header and its payload as they stand in the input: *there of its bytes. */
static uint8_t next(struct input *in, uint8_t head[static RECORD_HEADER], uint8_t **payload,
    size_t *there)
{
	struct record r = { 0 };
	uint8_t how, len[2];
	uint32_t n;

	take(in, &how, 1);
	if (how & HOW_HEADER) {
		take(in, head, RECORD_HEADER);
	} else {
		take(in, len, sizeof len);
		r.type = how & HOW_TYPE;
		r.len = get_le16(len);
		r.seq = in->left;
		record_encode(&r, head);
	}
	n = get_le32(head + 8);
	n = n > RECORD_MAX ? 0 : n;
	*payload = malloc(n + 1);
	check(*payload != NULL);
	*there = take(in, *payload, n);
	return how;
}

/* One record to the server; false when that ends the connection. */
static bool one(struct world *w, struct input *in)
{
	uint8_t head[RECORD_HEAD], tag[RECORD_TAG], *clear, *wire;
	size_t there, n;
	uint8_t how = next(in, head, &clear, &there);
	bool whole, good, fine, ended;
	enum err_code rc;
	struct record r;

	fine = record_decode(head, &r, NULL) == ERR_OK;
	n = get_le32(head + 8);
	n = n > RECORD_MAX ? 0 : n;
	whole = there == n;
	wire = malloc(n + 1);
	check(wire != NULL);
	memcpy(wire, clear, n);
	check(session_seal_header(&w->peer.session, head, head + RECORD_HEADER));
	check(!n ||
	    session_seal_payload(&w->peer.session, wire, n, w->peer.session.sealed ? wire : NULL,
	        tag));
	session_next_tx(&w->peer.session);
	if (how & HOW_BAD_TAG)
		(n ? tag : head + RECORD_HEADER)[7] ^= 1;
	/* A goodbye and an offer of shared memory are the connection's own. */
	good = fine && whole && !(how & HOW_BAD_TAG) && !(r.flags & RECORD_TO_CLIENT) &&
	    r.type != REC_BYE && r.type != REC_SHARE;
	w->head = head;
	w->payload = clear;
	w->due = good;

	rc = peer_feed(&w->peer, head, how & HOW_CUT ? 33 : RECORD_HEAD);
	if (how & HOW_CUT) {
		check(peer_turn(&w->peer) == ERR_OK && w->due == good);
		rc = peer_feed(&w->peer, head + 33, RECORD_HEAD - 33);
		/* What an ended peer would still send must not matter. */
		rc = rc ? rc : peer_turn(&w->peer);
	}
	if (!rc)
		rc = peer_feed(&w->peer, wire, there);
	if (!rc && n && whole)
		rc = peer_feed(&w->peer, tag, sizeof tag);
	if (!rc)
		rc = peer_turn(&w->peer);
	check(!w->due && w->live == conn_is_live(w->peer.server));
	if (!good && !rc)
		check(!whole); /* nothing but a cut record leaves it waiting */
	if (good)
		check(w->dropped ? r.type == REC_CTL && rc == ERR_PROTO : rc == ERR_OK);
	/* No descriptor comes with the offer. */
	if (fine && whole && r.type == REC_SHARE && !(how & HOW_BAD_TAG) &&
	    !(r.flags & RECORD_TO_CLIENT))
		check(rc == ERR_PROTO);
	if (fine && !good && r.type == REC_BYE && !(how & HOW_BAD_TAG) &&
	    !(r.flags & RECORD_TO_CLIENT))
		check(rc == ERR_CLOSED && conn_said_bye(w->peer.server));
	ended = rc || !whole;
	free(wire);
	free(clear);
	return !ended;
}

static void records(const uint8_t *data, size_t n, enum suite suite)
{
	struct input in = { data, n };
	struct world w = { 0 };
	bool going = true;

	open_world(&w, suite);
	peer_shake_hands(&w.peer, suite);
	check(w.admitted == 1);
	check(conn_suite(w.peer.server) == suite && conn_queued(w.peer.server) == 0);
	for (int i = 0; going && in.left && i < 64; i++)
		going = one(&w, &in);
	shutdown(w.peer.fd, SHUT_WR);
	if (going)
		check(peer_turn(&w.peer) == ERR_CLOSED && !conn_said_bye(w.peer.server));
	close_world(&w);
}

/* One record of a script, for the mutator. */
static struct entry scripted(const uint8_t *p, size_t n)
{
	bool whole = n && p[0] & HOW_HEADER;
	size_t at = whole ? 9 : 1, bytes = whole ? 4 : 2, body = whole ? 1 + RECORD_HEADER : 3;
	uint64_t len = n < body ? 0 : whole ? get_le32(p + at) : get_le16(p + at);

	return (struct entry){ body + (len > RECORD_MAX ? 0 : (size_t)len), body, at, bytes };
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
	return n && data[0] % 4 >= 2 ? script_mutate(data, n, most, seed, scripted)
	                             : LLVMFuzzerMutate(data, n, most);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static bool ready;

	if (!ready)
		peer_keys();
	ready = true;
	if (n == 0)
		return 0;
	switch (data[0] % 4) {
	case 0:
		decode(data + 1, n - 1);
		break;
	case 1:
		stranger(data + 1, n - 1);
		break;
	case 2:
		records(data + 1, n - 1, SUITE_POLY1305);
		break;
	default:
		records(data + 1, n - 1, SUITE_CHACHA20POLY1305);
		break;
	}
	return 0;
}
