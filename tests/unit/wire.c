/* SPDX-License-Identifier: ISC */
#include <sodium.h>

#include "auth/keyring.h"
#include "core/endian.h"
#include "tap.h"
#include "wire/payload.h"

/* What lies between two programs, byte by byte: headers, bodies, who may send
 * what.  Input lies against a guard page, so a read past its end is a fault
 * with any compiler. */
static uint8_t *guarded(const void *p, size_t n)
{
	uint8_t *g = sodium_malloc(n);

	if (!g)
		abort();
	if (n)
		memcpy(g, p, n);
	return g;
}

/* ---- the header ---- */

static const struct record sample = {
	.type = REC_PUSH_ROWS,
	.flags = 0x8a05,
	.len = 0x00034567,
	.table = 0x1122,
	.codec = 0x3344,
	.part = 0x55667788,
	.epoch = 0x99aabbcc,
	.generation = 0xddeeff01,
	.examples = 0x02030405,
	.step = UINT64_C(0x060708090a0b0c0d),
	.seq = UINT64_C(0x0e0f101112131415),
	.offset = UINT64_C(0x161718191a1b1c1d),
	.total = UINT64_C(0xfedcba9876543210),
};
static const uint8_t golden[RECORD_HEADER] = {
	'P',
	'S',
	'R',
	'1',
	1,
	11,
	0x05,
	0x8a,
	0x67,
	0x45,
	0x03,
	0x00,
	0x22,
	0x11,
	0x44,
	0x33,
	0x88,
	0x77,
	0x66,
	0x55,
	0xcc,
	0xbb,
	0xaa,
	0x99,
	0x01,
	0xff,
	0xee,
	0xdd,
	0x05,
	0x04,
	0x03,
	0x02,
	0x0d,
	0x0c,
	0x0b,
	0x0a,
	0x09,
	0x08,
	0x07,
	0x06,
	0x15,
	0x14,
	0x13,
	0x12,
	0x11,
	0x10,
	0x0f,
	0x0e,
	0x1d,
	0x1c,
	0x1b,
	0x1a,
	0x19,
	0x18,
	0x17,
	0x16,
	0x10,
	0x32,
	0x54,
	0x76,
	0x98,
	0xba,
	0xdc,
	0xfe,
};

static const struct {
	size_t at, size;
} members[] = {
#define MEMBER(m) \
	{ \
		offsetof(struct record, m), sizeof sample.m \
	}
	MEMBER(flags),
	MEMBER(table),
	MEMBER(codec),
	MEMBER(part),
	MEMBER(epoch),
	MEMBER(generation),
	MEMBER(examples),
	MEMBER(step),
	MEMBER(seq),
	MEMBER(offset),
	MEMBER(total),
};

static bool same(const struct record *a, const struct record *b)
{
	return a->type == b->type && a->flags == b->flags && a->len == b->len &&
	    a->table == b->table && a->codec == b->codec && a->part == b->part &&
	    a->epoch == b->epoch && a->generation == b->generation && a->examples == b->examples &&
	    a->step == b->step && a->seq == b->seq && a->offset == b->offset &&
	    a->total == b->total;
}

static bool comes_back(const struct record *r)
{
	uint8_t *h = guarded(golden, sizeof golden);
	struct record back;
	bool good;

	memset(&back, 0x5a, sizeof back);
	record_encode(r, h);
	good = record_decode(h, &back, NULL) == ERR_OK && same(r, &back);
	sodium_free(h);
	return good;
}

static void header(void)
{
	uint8_t *h = guarded(golden, sizeof golden), again[RECORD_HEADER];
	struct record r, zero = { .type = REC_PULL };
	int flips = 0, kept = 0, wrong = 0;

	memset(again, 0x5a, sizeof again);
	record_encode(&sample, again);
	ok(memcmp(again, golden, sizeof golden) == 0, "a header is written as it always was");
	ok(record_decode(h, &r, NULL) == ERR_OK && same(&r, &sample), "and read as it always was");
	ok(comes_back(&zero), "all fields 0 come back");
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		r = zero;
		memset((uint8_t *)&r + members[i].at, 0xff, members[i].size);
		wrong += !comes_back(&r);
		r = sample;
		memset((uint8_t *)&r + members[i].at, 0, members[i].size);
		wrong += !comes_back(&r);
	}
	ok(wrong == 0, "each field at 0 and at its widest comes back, and disturbs no other");

	for (int bit = 0; bit < 5 * 8; bit++) {
		struct err e = { 0 };

		h[bit / 8] ^= (uint8_t)(1u << bit % 8);
		flips += record_decode(h, &r, &e) == ERR_PROTO && e.code == ERR_PROTO && e.msg[0];
		h[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ok(flips == 40,
	    "each flipped bit of magic and version is refused with a sentence (%d of 40)", flips);
	/* There is no byte that is not looked at: what decodes encodes to the same. */
	wrong = 0;
	for (int bit = 5 * 8; bit < 64 * 8; bit++) {
		h[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (record_decode(h, &r, NULL) == ERR_OK) {
			record_encode(&r, again);
			wrong += memcmp(again, h, sizeof again) != 0 || same(&r, &sample);
			kept++;
		}
		h[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ok(wrong == 0 && kept > 440, "each other flipped bit changes a field (%d headers read)",
	    kept);
	sodium_free(h);
}

/* ---- types, roles, limits ---- */

/* ps-protocol(7), MESSAGES, by hand.  Roles: Worker, Server, Relay, Monitor,
 * Admin, rEader; none: a server's answer, which nobody else may send. */
static const struct {
	uint8_t type;
	const char *name, *roles;
	uint32_t limit;
} table[] = {
	{ 1, "BYE", "WSRMAE", 0 },
	{ 2, "CTL", "WSRMAE", 1048576 },
	{ 3, "NACK", "", 512 },
	{ 4, "BATCH", "WSRMAE", 1048576 },
	{ 5, "SHARE", "WSRMAE", 0 },
	{ 6, "PROBE", "WSRA", 262144 },
	{ 7, "PROBED", "", 262144 },
	{ 10, "PUSH", "WA", 1048576 },
	{ 11, "PUSH_ROWS", "WA", 1048576 },
	{ 12, "RECEIPT", "", 1048576 },
	{ 14, "CLOCK", "W", 1048576 },
	{ 15, "CLOCKED", "", 0 },
	{ 16, "DONE", "W", 0 },
	{ 20, "PULL", "WRSAE", 1048576 },
	{ 21, "PULLED", "", 1048576 },
	{ 22, "PULL_ROWS", "WRSAE", 1048576 },
	{ 23, "ROWS", "", 1048576 },
	{ 24, "SCAN", "WSAE", 0 },
	{ 25, "SCANNED", "", 1048576 },
	{ 26, "NO_ROW_IDS", "", 0 },
	{ 30, "REPL_SUM", "S", 1048576 },
	{ 31, "REPL_PUSH", "S", 1048576 },
	{ 32, "REPL_STEP", "S", 1048576 },
	{ 33, "REPL_STATE", "S", 1048576 },
	{ 34, "REPLICATED", "", 1048576 },
	{ 40, "FILE_PUT", "S", 512 },
	{ 41, "FILE_GET", "S", 512 },
	{ 42, "FILE_DATA", "S", 1048576 },
	{ 43, "FILE_END", "S", 512 },
	{ 50, "RING_HELLO", "", 0 },
	{ 51, "RING_SUM", "", 1048576 },
	{ 52, "RING_COPY", "", 1048576 },
	{ 60, "PUSH_SUM", "R", 1048576 },
	{ 61, "SUMMED", "", 1048576 },
	{ 62, "CLOCKS", "R", 1048576 },
};
#define TYPES (sizeof table / sizeof *table)
static const char role_letter[] = "-WSRMAE";

static enum err_code decode_len(uint8_t type, uint32_t len)
{
	struct record r = { .type = type, .len = len };
	uint8_t h[RECORD_HEADER];

	record_encode(&r, h);
	return record_decode(h, &r, NULL);
}

static void one_type(size_t i)
{
	uint8_t type = table[i].type;
	uint32_t limit = table[i].limit;
	const char *name = record_type_name(type);
	int wrong = 0;

	for (unsigned role = 0; role < 7; role++)
		wrong += record_role_may(type, role) !=
		    (role > 0 && strchr(table[i].roles, role_letter[role]) != NULL);
	ok(wrong == 0 && name && strcmp(name, table[i].name) == 0,
	    "%s is %u and may be sent by: %s", table[i].name, type,
	    table[i].roles[0] ? table[i].roles : "no client");
	ok(decode_len(type, 0) == ERR_OK && decode_len(type, limit) == ERR_OK &&
	        decode_len(type, limit + 1) == ERR_PROTO &&
	        decode_len(type, RECORD_MAX + 1) == ERR_PROTO &&
	        decode_len(type, UINT32_C(1) << 31) == ERR_PROTO &&
	        decode_len(type, UINT32_MAX) == ERR_PROTO,
	    "%s has at most %u bytes", table[i].name, limit);
}

static void types(void)
{
	int strangers = 0, beyond = 0;

	ok(RECORD_HEADER == 64 && RECORD_TAG == 16 && RECORD_MAX == 1048576,
	    "sizes are those of the manual");
	ok(strcmp(role_name((enum role)1), "worker") == 0 &&
	        strcmp(role_name((enum role)2), "server") == 0 &&
	        strcmp(role_name((enum role)3), "relay") == 0 &&
	        strcmp(role_name((enum role)4), "monitor") == 0 &&
	        strcmp(role_name((enum role)5), "admin") == 0 &&
	        strcmp(role_name((enum role)6), "reader") == 0,
	    "the six roles have the manual's numbers");
	for (size_t i = 0; i < TYPES; i++)
		one_type(i);
	for (unsigned t = 0; t < 256; t++) {
		bool known = false;

		for (size_t i = 0; i < TYPES; i++)
			known |= table[i].type == t;
		for (unsigned role = 0; role < 6 && !known; role++)
			strangers += record_role_may((uint8_t)t, role);
		for (unsigned role = 7; role < 300; role++)
			beyond += record_role_may((uint8_t)t, role);
		if (!known)
			strangers += record_type_name((uint8_t)t) != NULL ||
			    decode_len((uint8_t)t, 0) != ERR_PROTO;
	}
	ok(strangers == 0, "no other number is a type");
	ok(beyond == 0, "a role that is none may send nothing");
}

/* ---- bodies of whole entries ---- */

typedef bool (*get_fn)(const uint8_t *p, size_t len, size_t i);

static bool get_run(const uint8_t *p, size_t len, size_t i)
{
	return payload_get_run(p, len, i, &(struct payload_run){ 0 });
}

static bool get_receipt(const uint8_t *p, size_t len, size_t i)
{
	return payload_get_receipt(p, len, i, &(struct payload_receipt){ 0 });
}

static bool get_copied(const uint8_t *p, size_t len, size_t i)
{
	return payload_get_replicated(p, len, i, &(struct payload_replicated){ 0 });
}

/* Every length from 0 to three entries, and indices whose product overflows. */
static void entries(const char *name, const struct buf *three, size_t size, get_fn get)
{
	const size_t far[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / size, SIZE_MAX / size + 1,
		SIZE_MAX / size + 2, (size_t)1 << 63, (size_t)1 << 62, (size_t)1 << 32 };
	int wrong = three->len != 3 * size;

	for (size_t n = 0; n <= 3 * size; n++) {
		uint8_t *p = guarded(three->data, n);

		for (size_t i = 0; i < 5; i++)
			wrong += get(p, n, i) != ((i + 1) * size <= n);
		for (size_t i = 0; i < sizeof far / sizeof *far; i++)
			wrong += get(p, n, far[i]);
		sodium_free(p);
	}
	ok(wrong == 0, "%s: of every truncation only whole entries are read", name);
}

static void runs(void)
{
	static const struct payload_run in[3] = { { 0x1234, 0x56789abc, 0xdef01234, false },
		{ 0, 0, 0, true }, { UINT16_MAX, UINT32_MAX, UINT32_MAX, true } };
	static const uint8_t bytes[] = { 0x34, 0x12, 0, 0, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0xf0,
		0xde };
	struct buf b = BUF_INIT;
	struct payload_run r;
	int wrong = 0;

	for (size_t i = 0; i < 3; i++) {
		payload_encode_run(buf_reserve(&b, PAYLOAD_RUN_BYTES), &in[i]);
		buf_commit(&b, PAYLOAD_RUN_BYTES);
	}
	ok(b.len == 36 && memcmp(b.data, bytes, sizeof bytes) == 0,
	    "a run is written as it always was");
	for (size_t i = 0; i < 3; i++)
		wrong += !payload_get_run(b.data, b.len, i, &r) || r.table != in[i].table ||
		    r.first != in[i].first || r.count != in[i].count ||
		    r.bypasses_relay != in[i].bypasses_relay;
	ok(wrong == 0, "runs come back, at 0 and at their widest");
	for (size_t n = 0; n <= b.len; n++)
		wrong += payload_runs_valid(b.data, n) != (n % 12 == 0);
	ok(wrong == 0, "and are whole at multiples of 12 bytes");
	ok(payload_runs_parts(b.data, b.len) == (uint64_t)in[0].count + in[1].count + in[2].count &&
	        payload_runs_parts(b.data, 12) == in[0].count && !payload_runs_parts(b.data, 0),
	    "their partitions are counted");
	entries("runs", &b, PAYLOAD_RUN_BYTES, get_run);
	b.data[14] = 2;
	ok(payload_get_run(b.data, b.len, 0, &r) && !payload_get_run(b.data, b.len, 1, &r) &&
	        !payload_runs_valid(b.data, b.len) && payload_runs_valid(b.data, 12),
	    "a table's number of more than 16 bits is not cut, but refused, but for the one that says alone");
	buf_release(&b);
}

static void parts_in_runs(void)
{
	static const struct {
		uint16_t table;
		uint32_t part;
		bool alone;
	} in[] = { { 1, 4, false }, { 1, 5, false }, { 1, 6, false }, { 1, 6, false },
		{ 1, 8, false }, { 2, 9, false }, { 2, 8, false }, { 1, 9, true }, { 1, 10, true },
		{ 1, 11, false } };
	static const struct payload_run want[] = { { 1, 4, 3, false }, { 1, 6, 1, false },
		{ 1, 8, 1, false }, { 2, 9, 1, false }, { 2, 8, 1, false }, { 1, 9, 2, true },
		{ 1, 11, 1, false } };
	struct buf b = BUF_INIT;
	struct payload_run r;
	size_t right = 0;

	for (size_t i = 0; i < sizeof in / sizeof *in; i++)
		payload_put_part(&b, in[i].table, in[i].part, in[i].alone);
	for (size_t i = 0; payload_get_run(b.data, b.len, i, &r) && i < 7; i++)
		right += r.table == want[i].table && r.first == want[i].first &&
		    r.count == want[i].count && r.bypasses_relay == want[i].bypasses_relay;
	ok(right == 7 && b.len == 7 * PAYLOAD_RUN_BYTES,
	    "partitions that follow one another are one run, those that go alone another");
	buf_release(&b);
}

static void receipts(void)
{
	static const struct payload_receipt in[3] = { { .table = 0x1234,
		                                          .status = 2,
		                                          .replicas = 3,
		                                          .part = 0x56789abc,
		                                          .staleness = 0xdef01234,
		                                          .step = UINT64_C(0x0102030405060708),
		                                          .version = UINT64_C(0x1112131415161718) },
		{ 0 },
		{ UINT16_MAX, UINT8_MAX, UINT8_MAX, UINT32_MAX, UINT32_MAX, UINT64_MAX,
		    UINT64_MAX } };
	static const uint8_t bytes[] = { 0x34, 0x12, 2, 3, 0xbc, 0x9a, 0x78, 0x56, 8, 7, 6, 5, 4, 3,
		2, 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x34, 0x12, 0xf0, 0xde, 0, 0,
		0, 0 };
	struct buf b = BUF_INIT;
	struct payload_receipt r;
	int wrong = 0;

	for (size_t i = 0; i < 3; i++)
		payload_put_receipt(&b, &in[i]);
	ok(b.len == 96 && memcmp(b.data, bytes, sizeof bytes) == 0,
	    "a receipt is written as it always was");
	for (size_t i = 0; i < 3; i++)
		wrong += !payload_get_receipt(b.data, b.len, i, &r) || r.table != in[i].table ||
		    r.status != in[i].status || r.replicas != in[i].replicas ||
		    r.part != in[i].part || r.staleness != in[i].staleness ||
		    r.step != in[i].step || r.version != in[i].version;
	ok(wrong == 0, "receipts come back, at 0 and at their widest");
	entries("receipts", &b, PAYLOAD_RECEIPT_BYTES, get_receipt);
	buf_release(&b);
}

static void copied(void)
{
	static const struct payload_replicated in[3] = { { 0x1234, 0x56789abc,
		                                             UINT64_C(0x0102030405060708) },
		{ 0 }, { UINT16_MAX, UINT32_MAX, UINT64_MAX } };
	static const uint8_t bytes[] = { 0x34, 0x12, 0, 0, 0xbc, 0x9a, 0x78, 0x56, 8, 7, 6, 5, 4, 3,
		2, 1 };
	struct buf b = BUF_INIT;
	struct payload_replicated c;
	int wrong = 0;

	for (size_t i = 0; i < 3; i++)
		payload_put_replicated(&b, &in[i]);
	ok(b.len == 48 && memcmp(b.data, bytes, sizeof bytes) == 0,
	    "a REPLICATED entry is written as it always was");
	for (size_t i = 0; i < 3; i++)
		wrong += !payload_get_replicated(b.data, b.len, i, &c) || c.table != in[i].table ||
		    c.part != in[i].part || c.seq != in[i].seq;
	ok(wrong == 0, "REPLICATED entries come back, at 0 and at their widest");
	entries("REPLICATED", &b, PAYLOAD_REPLICATED_BYTES, get_copied);
	b.data[2] = 1;
	ok(!payload_get_replicated(b.data, b.len, 0, &c) &&
	        payload_get_replicated(b.data, b.len, 1, &c),
	    "a table's number of more than 16 bits is refused there too");
	buf_release(&b);
}

/* ---- refusals ---- */

static bool nack_reads(const void *bytes, size_t n, enum err_code code, const char *text)
{
	uint8_t *p = guarded(bytes, n);
	struct err e = { 0 };
	enum err_code rc = payload_get_nack(p, n, &e);

	sodium_free(p);
	return rc == code && e.code == code && strcmp(e.msg, text) == 0;
}

static void nacks(void)
{
	static const char text[] = "table \"w\": 100% of it is elsewhere %s%n";
	char large[600];
	struct buf b = BUF_INIT;
	int wrong = 0;

	payload_put_nack(&b, ERR_STALE, text);
	ok(b.len == 4 + strlen(text) && get_le32(b.data) == 18 &&
	        memcmp(b.data + 4, text, strlen(text)) == 0,
	    "a NACK is a number and a text without NUL");
	for (size_t n = 0; n <= b.len; n++) {
		char cut[sizeof text] = "";

		if (n > 4)
			memcpy(cut, text, n - 4);
		wrong += n < 4 ? !nack_reads(b.data, n, ERR_PROTO, "a refusal without a code")
		               : !nack_reads(b.data, n, ERR_STALE, cut);
	}
	ok(wrong == 0, "each truncation of it reads no byte too many, and formats nothing");
	ok(payload_get_nack(b.data, b.len, NULL) == ERR_STALE, "the sentence is not needed");
	buf_clear(&b);
	payload_put_nack(&b, ERR_OK, "");
	ok(b.len == 4 && nack_reads(b.data, 4, ERR_PROTO, ""),
	    "a refusal that says ok is a fault of the protocol");
	memset(large, 'x', sizeof large);
	large[599] = 0;
	buf_clear(&b);
	payload_put_nack(&b, ERR_LIMIT, large);
	large[500] = 0;
	ok(b.len == 504 && nack_reads(b.data, b.len, ERR_LIMIT, large),
	    "a long text is cut to 500 bytes");
	for (size_t i = 0; i < 500; i += 3)
		memcpy(large + i, "\xe2\x82\xac", 3);
	large[501] = 0;
	buf_clear(&b);
	payload_put_nack(&b, ERR_LIMIT, large);
	large[498] = 0;
	ok(b.len == 502 && nack_reads(b.data, b.len, ERR_LIMIT, large),
	    "before the character that does not fit whole");
	ok(nack_reads("\x0f\0\0\0a\x1b[2J\nb\x7f\xc3\xa9", 14, ERR_LIMIT, "a?[2J?b?\xc3\xa9"),
	    "control characters are not handed on");
	memset(large, 0xff, 512);
	ok(payload_get_nack((const uint8_t *)large, 512, &(struct err){ 0 }) != ERR_OK,
	    "a code of no meaning is an error all the same");
	buf_release(&b);
}

/* ---- rows ---- */

static bool rows_read(uint32_t n, uint32_t zero, uint32_t width, size_t len)
{
	uint8_t head[8], *p;
	const uint8_t *ids = NULL, *values = NULL;
	uint32_t got = 0;
	bool good;

	payload_put_rows_head(head, n);
	if (zero)
		put_le32(head + 4, zero);
	p = sodium_malloc(len);
	memset(p, 1, len);
	memcpy(p, head, len < 8 ? len : 8);
	good = payload_get_rows(p, len, width, &got, &ids, &values);
	if (good &&
	    (got != n || ids != p + 8 || values != ids + 8 * (size_t)n ||
	        values + 4 * (size_t)n * width != p + len))
		good = !ok(false, "%u rows of %u lie where they are", n, width);
	sodium_free(p);
	return good;
}

static void rows(void)
{
	static const uint32_t widths[] = { 0, 1, 2, 3, 64, 65536 };
	static const uint32_t absurd[] = { 1, 0x10000000, 0x1fffffff, 0x20000000, 0x20000001,
		0x40000000, 0x55555555, 0x80000000, 0xfffffffe, 0xffffffff };
	int wrong = 0, taken = 0;

	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
		for (uint32_t n = 0; n < 4; n++) {
			size_t len = 8 + n * (8 + 4 * (size_t)widths[w]);

			wrong += !rows_read(n, 0, widths[w], len) ||
			    rows_read(n, 1, widths[w], len) ||
			    rows_read(n, UINT32_C(1) << 31, widths[w], len);
			wrong += rows_read(n, 0, widths[w], len - 1) ||
			    rows_read(n, 0, widths[w], len + 1) ||
			    rows_read(n, 0, widths[w], len + 4) ||
			    rows_read(n, 0, widths[w], len + 8 + 4 * (size_t)widths[w]);
		}
	ok(wrong == 0, "rows are read at their exact length alone, with a head whose rest is zero");
	for (size_t len = 0; len < 8 + 3 * 20; len++)
		wrong += rows_read(3, 0, 3, len);
	ok(wrong == 0, "no truncation of three rows is read");
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
		for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++)
			for (size_t len = 0; len <= 16; len += 4)
				taken += rows_read(absurd[i], 0, widths[w], len);
	wrong = 0;
	for (uint32_t n = 2; n; n *= 2)
		for (size_t len = 8; len <= 40; len += 8)
			wrong += len - 8 != (uint64_t)n * 8 && rows_read(n, 0, UINT32_MAX - 1, len);
	ok(wrong == 0, "nor one whose rows are absurdly wide");
	ok(taken == 1,
	    "a number of rows whose bytes overflow is refused (one row of no width is not)");
}

/* A server counts the body, counts of examples and all, and the decoded rows. */
static void pushed_rows(void)
{
	uint32_t n = 1000, cols = 3;
	size_t rest = PAYLOAD_PUSH_ROWS_MOST - 8 - n * (8 + 4 * cols);

	ok(payload_push_rows_fit(n, cols, rest, false) &&
	        !payload_push_rows_fit(n, cols, rest + 1, false),
	    "a push of rows may be as large as a server decodes");
	ok(!payload_push_rows_fit(n, cols, rest, true) &&
	        payload_push_rows_fit(n, cols, rest - n * PAYLOAD_COUNT_BYTES, true) &&
	        !payload_push_rows_fit(n, cols, rest - n * PAYLOAD_COUNT_BYTES + 1, true),
	    "of which the counts of examples are a part");
	ok(!payload_push_rows_fit(UINT32_MAX, UINT32_MAX, 0, true), "absurd ones do not fit");
}

int main(void)
{
	if (sodium_init() < 0)
		abort();
	header();
	types();
	runs();
	parts_in_runs();
	receipts();
	copied();
	nacks();
	rows();
	pushed_rows();
	return tap_done();
}
