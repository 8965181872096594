/* SPDX-License-Identifier: ISC */
#include <sodium.h>

#include "tap.h"

/* The batcher sends to the array below, in place of a conn. */
#define conn_send    note_sent
#define conn_reserve note_reserved
#define conn_commit  note_committed
#include "lib/net/wire/payload.c"

/* What goes in pieces or many together: batches, texts.  Input lies against a
 * guard page, as in wire.c. */
static uint8_t *guarded(const void *p, size_t n)
{
	uint8_t *g = sodium_malloc(n);

	if (!g)
		abort();
	if (n)
		memcpy(g, p, n);
	return g;
}

/* ---- batches ---- */

static void put_record(struct buf *b, uint8_t type, uint32_t claimed, uint32_t there)
{
	struct record r = { .type = type, .len = claimed, .seq = b->len };

	record_encode(&r, buf_reserve(b, RECORD_HEADER + there));
	memset(b->data + b->len + RECORD_HEADER, 0, there);
	memset(b->data + b->len + RECORD_HEADER, (int)(there & 0xff),
	    claimed < there ? claimed : there);
	buf_commit(b, RECORD_HEADER + there);
}

/* The number of records read from the first n bytes; *code is what ended them. */
static int take(const struct buf *b, size_t n, enum err_code *code)
{
	uint8_t *p = guarded(b->data, n);
	const uint8_t *payload;
	struct err e = { 0 };
	struct record r;
	size_t at = 0, before = 0;
	int count = 0;

	while (payload_batch_next(p, n, &at, &r, &payload, &e)) {
		/* Touched to its end: a guard page lies behind. */
		if (r.seq != before || payload != p + before + RECORD_HEADER || at <= before ||
		    at > n || at % 8 ||
		    (r.len && payload[r.len - 1] != (uint8_t)(at - before - RECORD_HEADER)))
			abort();
		before = at;
		count++;
	}
	if (payload_batch_next(p, n, &at, &r, &payload, NULL) || at != before)
		abort();
	sodium_free(p);
	*code = e.code;
	return count;
}

static bool batch_refused(uint8_t type, uint32_t claimed, uint32_t there)
{
	struct buf b = BUF_INIT;
	enum err_code code;
	int n;

	put_record(&b, REC_PULL, 8, 8);
	put_record(&b, type, claimed, there);
	n = take(&b, b.len, &code);
	buf_release(&b);
	return n == 1 && code == ERR_PROTO;
}

static void batches(void)
{
	static const struct {
		uint32_t len, there;
	} part[] = { { 0, 0 }, { 1, 8 }, { 7, 8 }, { 8, 8 }, { 9, 16 } };
	struct buf b = BUF_INIT;
	enum err_code code;
	size_t ends[6] = { 0 }, at;
	const uint8_t *payload;
	struct err e = { 0 };
	struct record r;
	int wrong = 0;

	for (size_t i = 0; i < 5; i++) {
		put_record(&b, REC_PULL, part[i].len, part[i].there);
		ends[i + 1] = b.len;
	}
	ok(take(&b, b.len, &code) == 5 && code == ERR_OK,
	    "records of 0, 1, 7, 8 and 9 bytes are taken from a batch");
	for (size_t n = 0; n < b.len; n++) {
		int whole = 0;

		while (ends[whole + 1] <= n)
			whole++;
		wrong += take(&b, n, &code) != whole ||
		    code != (ends[whole] == n ? ERR_OK : ERR_PROTO);
	}
	ok(wrong == 0,
	    "each truncation gives its whole records, then an error unless it ends with one");
	ok(batch_refused(REC_BATCH, 0, 0) && batch_refused(REC_BATCH, 8, 8) &&
	        batch_refused(REC_BATCH, RECORD_MAX, 64),
	    "a batch in a batch is refused");
	ok(batch_refused(REC_BYE, 0, 0), "so is a goodbye");
	ok(batch_refused(0, 0, 0) && batch_refused(255, 0, 0) && batch_refused(REC_DONE, 1, 8),
	    "so is what no header may say");
	for (uint32_t n = 1; n <= 8; n++)
		wrong += !batch_refused(REC_PULL, n, n - 1) ||
		    (n % 8 && !batch_refused(REC_PULL, n, n));
	ok(wrong == 0, "a payload without its zero bytes up to 8 is refused");
	for (size_t i = 9; i < 16; i++) {
		buf_clear(&b);
		put_record(&b, REC_PULL, 9, 16);
		b.data[RECORD_HEADER + i] = 1;
		wrong += take(&b, b.len, &code) != 0 || code != ERR_PROTO;
	}
	ok(wrong == 0, "so is one that is followed by anything else");
	buf_clear(&b);
	put_record(&b, REC_PULL, 8, 8);
	b.data[6] = RECORD_TO_CLIENT;
	ok(take(&b, b.len, &code) == 0 && code == ERR_PROTO, "and a direction inside of a batch");
	b.data[6] = 0;
	e.code = ERR_IO;
	at = 0;
	ok(payload_batch_next(b.data, b.len, &at, &r, &payload, &e) && !e.code &&
	        !payload_batch_next(b.data, b.len, &at, &r, &payload, &e) && !e.code,
	    "an error of before is not taken for one");
	ok(batch_refused(REC_PULL, 9, 8) && batch_refused(REC_PULL, RECORD_MAX, 64) &&
	        batch_refused(REC_PULL, UINT32_MAX, 64) &&
	        batch_refused(REC_PULL, UINT32_MAX - 7, 64),
	    "a length beyond the batch is refused");
	buf_release(&b);
}

/* The records that a batcher sends, one after the other. */
static struct record sent[8];
static struct buf sent_body[8];
static size_t nsent;
void conn_send(struct conn *c, const struct record *r, const void *payload)
{
	(void)c;
	if (nsent == 8)
		abort();
	sent[nsent] = *r;
	buf_clear(&sent_body[nsent]);
	buf_append(&sent_body[nsent++], payload, r->len);
}

static uint8_t reserved[RECORD_MAX];
uint8_t *conn_reserve(struct conn *c, uint32_t len)
{
	(void)c;
	if (len > sizeof reserved)
		abort();
	return reserved;
}

void conn_commit(struct conn *c, const struct record *r)
{
	conn_send(c, r, reserved);
}

static void add(struct batcher *b, uint32_t len, uint64_t seq)
{
	static uint8_t body[BATCHER_SMALL + 1];
	struct record r = { .type = REC_PULLED, .len = len, .seq = seq };

	memset(body, (int)seq, len);
	batcher_add(b, NULL, &r, body);
}

/* The records in the i-th that was sent, which must go on at *seq and be of len bytes each. */
static int inside(size_t i, uint32_t len, uint64_t *seq)
{
	const uint8_t *payload;
	struct err e = { 0 };
	struct record r;
	size_t at = 0;
	int n = 0;

	while (payload_batch_next(sent_body[i].data, sent[i].len, &at, &r, &payload, &e)) {
		if (r.type != REC_PULLED || r.len != len || r.seq != (*seq)++ ||
		    (len && payload[len - 1] != (uint8_t)r.seq))
			return -1;
		n++;
	}
	return e.code ? -1 : n;
}

static void batcher(void)
{
	struct batcher b = { 0 };
	uint64_t seq = 0;

	nsent = 0;
	batcher_flush(&b, NULL);
	ok(nsent == 0, "nothing gathered: nothing is sent");
	add(&b, 13, 7);
	batcher_flush(&b, NULL);
	ok(nsent == 1 && sent[0].type == REC_PULLED && sent[0].len == 13 && sent[0].seq == 7 &&
	        sent_body[0].data[12] == 7,
	    "one small record is sent plainly");
	nsent = 0;
	for (unsigned i = 0; i < 40; i++)
		add(&b, BATCHER_SMALL, i);
	add(&b, BATCHER_SMALL + 1, 40);
	add(&b, 0, 41);
	add(&b, 0, 42);
	batcher_flush(&b, NULL);
	ok(nsent == 4 && sent[0].type == REC_BATCH && sent[1].type == REC_BATCH &&
	        sent[0].len <= 256u << 10 && inside(0, BATCHER_SMALL, &seq) == 31 &&
	        inside(1, BATCHER_SMALL, &seq) == 9 && seq == 40,
	    "40 small records go in order in batches of at most 256 KiB");
	ok(sent[2].type == REC_PULLED && sent[2].seq == 40 && sent[2].len == BATCHER_SMALL + 1,
	    "a larger one goes plainly, after what was gathered");
	seq = 41;
	ok(sent[3].type == REC_BATCH && sent[3].len == 128 && inside(3, 0, &seq) == 2,
	    "empty ones are gathered too");
	batcher_release(&b);
	for (size_t i = 0; i < 8; i++)
		buf_release(&sent_body[i]);
}

/* Do the records that were sent have these bytes, each at its offset? */
static bool were_sent(const uint8_t *bytes, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < nsent; i++) {
		if (sent[i].type != REC_REPL_SUM || sent[i].seq != 9 || sent[i].total != n ||
		    sent[i].offset != at || sent[i].len > n - at ||
		    memcmp(sent_body[i].data, bytes + at, sent[i].len) != 0)
			return false;
		at += sent[i].len;
	}
	return at == n;
}

static void parts(void)
{
	enum { MOST = 2 * RECORD_MAX + 100 };
	static const size_t all[] = { 12, BATCHER_SMALL, BATCHER_SMALL + 1, RECORD_MAX,
		RECORD_MAX + 1, MOST };
	const struct record r = { .type = REC_REPL_SUM, .seq = 9 };
	uint8_t *bytes = malloc(MOST);
	struct batcher b = { 0 };
	int wrong = 0;

	for (size_t i = 0; i < MOST; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		const size_t heads[] = { 0, 5, all[i] - 1, all[i] };

		for (size_t k = 0; k < 4; k++) {
			nsent = 0;
			batcher_send_parts(&b, NULL, &r,
			    &(struct batcher_parts){ bytes, bytes + heads[k], heads[k],
			        all[i] - heads[k] });
			batcher_flush(&b, NULL);
			wrong += !were_sent(bytes, all[i]) ||
			    nsent != (all[i] + RECORD_MAX - 1) / RECORD_MAX;
		}
	}
	ok(wrong == 0, "a payload of two parts goes in as few records as it needs");
	nsent = 0;
	batcher_send_parts(&b, NULL, &r, &(struct batcher_parts){ 0 });
	batcher_flush(&b, NULL);
	ok(nsent == 0, "an empty one in none");
	batcher_release(&b);
	free(bytes);
	for (size_t i = 0; i < 8; i++)
		buf_release(&sent_body[i]);
}

/* ---- texts ---- */

static bool piece_refused(uint64_t offset, uint64_t total, uint32_t len)
{
	struct record r = { .type = REC_CTL, .len = len, .offset = offset, .total = total };
	struct buf text = BUF_INIT;
	struct err e = { 0 };
	bool whole;

	buf_append(&text, "abc", 3);
	whole = payload_get_text(&text, &r, (const uint8_t *)"defghijk", &whole, &e) == ERR_PROTO &&
	    e.msg[0] && text.len <= 3;
	buf_release(&text);
	return whole;
}

static void texts(void)
{
	size_t n = 2 * (size_t)RECORD_MAX + 5;
	char *long_text = malloc(n + 1);
	struct buf text = BUF_INIT;
	bool whole = true;
	int wrong = 0;

	memset(long_text, 'x', n);
	memcpy(long_text + n - 3, "end", 4);
	nsent = 0;
	payload_send_text(NULL, &(struct record){ .seq = 7, .flags = RECORD_REPLY }, "{}");
	ok(nsent == 1 && sent[0].type == REC_CTL && sent[0].len == 2 && !sent[0].total &&
	        !sent[0].offset && sent[0].seq == 7 && sent[0].flags == RECORD_REPLY,
	    "a text that fits a record is one");
	ok(!payload_get_text(&text, &sent[0], sent_body[0].data, &whole, NULL) && whole &&
	        text.len == 2,
	    "and is read as one");
	nsent = 0;
	payload_send_text(NULL, &(struct record){ .seq = 7 }, long_text);
	for (size_t i = 0; i < nsent; i++)
		wrong += payload_get_text(&text, &sent[i], sent_body[i].data, &whole, NULL) ||
		    whole != (i == 2) || sent[i].seq != 7;
	ok(nsent == 3 && !wrong && strcmp((char *)text.data, long_text) == 0,
	    "a longer one comes in pieces, and back whole");
	ok(piece_refused(2, 8, 4) && piece_refused(4, 8, 4) && piece_refused(3, 5, 4) &&
	        piece_refused(3, 2, 1) && piece_refused(0, PAYLOAD_TEXT_MAX + 1, 4) &&
	        piece_refused(3, 0, 4),
	    "pieces that do not fit are refused");
	free(long_text);
	buf_release(&text);
}

int main(void)
{
	if (sodium_init() < 0)
		abort();
	batches();
	batcher();
	parts();
	texts();
	return tap_done();
}
