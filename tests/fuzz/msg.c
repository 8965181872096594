/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "core/endian.h"
#include "core/json.h"
#include "layout/layout.h"
#include "msg/message.h"
#include "tests/fuzz/coordinator.h"
#include "tests/fuzz/mutate.h"
#include "wire/payload.h"

/* Any bytes are the body of a message or refused, and what was read lies within
 * the input.  The first byte, modulo 16, says which body the rest is; from 8 on the rest is a
 * script of messages to a coordinator, by sessions in any order:
 *   u8 who speaks (modulo 8; 128: the text is the whole message); u8 which operation, by its
 *   number in enum message_kind; u16 length; then text, which the message's members hold */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool good)
{
	if (!good)
		abort();
}

/* A table's number above 16 bits, but for flags. */
static bool wide(const uint8_t *p, uint16_t most)
{
	return get_le16(p + 2) > most;
}

static void runs(const uint8_t *p, size_t n)
{
	struct buf b = BUF_INIT;
	struct payload_run r;
	size_t i;

	for (i = 0; payload_get_run(p, n, i, &r); i++) {
		check((i + 1) * PAYLOAD_RUN_BYTES <= n);
		buf_clear(&b);
		payload_encode_run(buf_reserve(&b, PAYLOAD_RUN_BYTES), &r);
		buf_commit(&b, PAYLOAD_RUN_BYTES);
		check(memcmp(b.data, p + i * PAYLOAD_RUN_BYTES, PAYLOAD_RUN_BYTES) == 0);
	}
	check(i == n / PAYLOAD_RUN_BYTES || wide(p + i * PAYLOAD_RUN_BYTES, 1));
	check(payload_runs_valid(p, n) == (i * PAYLOAD_RUN_BYTES == n));
	buf_release(&b);
}

static void receipts(const uint8_t *p, size_t n)
{
	struct buf b = BUF_INIT;
	struct payload_receipt r;
	size_t i;

	for (i = 0; payload_get_receipt(p, n, i, &r); i++) {
		check((i + 1) * PAYLOAD_RECEIPT_BYTES <= n);
		buf_clear(&b);
		payload_put_receipt(&b, &r);
		/* The last four bytes are for later, and not looked at. */
		check(
		    memcmp(b.data, p + i * PAYLOAD_RECEIPT_BYTES, PAYLOAD_RECEIPT_BYTES - 4) == 0);
	}
	check(i == n / PAYLOAD_RECEIPT_BYTES);
	buf_release(&b);
}

static void copied(const uint8_t *p, size_t n)
{
	struct buf b = BUF_INIT;
	struct payload_replicated c;
	size_t i;

	for (i = 0; payload_get_replicated(p, n, i, &c); i++) {
		check((i + 1) * PAYLOAD_REPLICATED_BYTES <= n);
		buf_clear(&b);
		payload_put_replicated(&b, &c);
		check(memcmp(b.data, p + i * PAYLOAD_REPLICATED_BYTES, PAYLOAD_REPLICATED_BYTES) ==
		    0);
	}
	check(i == n / PAYLOAD_REPLICATED_BYTES || wide(p + i * PAYLOAD_REPLICATED_BYTES, 0));
	buf_release(&b);
}

static void nack(const uint8_t *p, size_t n)
{
	struct err e = { 0 };
	enum err_code code = payload_get_nack(p, n, &e);

	check(code != ERR_OK && e.code == code && err_name(code) && err_text(code) &&
	    err_exit_code(code) != 0);
	check(n < 4 || strlen(e.msg) <= n - 4);
	for (const char *c = e.msg; *c; c++)
		check((uint8_t)*c >= 0x20 && *c != 0x7f);
}

/* Two bytes of width, then the body. */
static void rows(const uint8_t *p, size_t n)
{
	const uint8_t *ids, *values;
	uint32_t width, rows_n;
	uint8_t *same;

	if (n < 2)
		return;
	width = get_le16(p);
	p += 2;
	n -= 2;
	if (!payload_get_rows(p, n, width, &rows_n, &ids, &values))
		return;
	check(ids == p + PAYLOAD_ROWS_HEAD && (size_t)rows_n <= n / 8);
	check(values == ids + (size_t)rows_n * 8 && values + (size_t)rows_n * width * 4 == p + n);
	same = malloc(n);
	check(same != NULL);
	payload_put_rows_head(same, rows_n);
	check(memcmp(same, p, PAYLOAD_ROWS_HEAD) == 0);
	free(same);
}

static void batch(const uint8_t *p, size_t n)
{
	uint8_t head[RECORD_HEADER];
	const uint8_t *payload;
	struct err e = { 0 };
	struct record r;
	size_t at = 0, before = 0;

	while (payload_batch_next(p, n, &at, &r, &payload, &e)) {
		check(!(r.flags & RECORD_TO_CLIENT));
		for (size_t i = before + RECORD_HEADER + r.len; i < at; i++)
			check(p[i] == 0);
		check(!e.code && at <= n && at >= before + RECORD_HEADER + r.len && at % 8 == 0);
		check(payload == p + before + RECORD_HEADER && r.type != REC_BATCH &&
		    r.type != REC_BYE);
		record_encode(&r, head);
		check(memcmp(head, p + before, sizeof head) == 0);
		before = at;
	}
	check(at == before && (at == n) == !e.code);
	check(!payload_batch_next(p, n, &at, &r, &payload, NULL) && at == before);
}

static void table(const json_t *j)
{
	struct table t, again;
	struct err e = { 0 };
	json_t *back;

	if (table_from_json(j, &t, &e)) {
		check(e.code != ERR_OK && e.msg[0]);
		return;
	}
	check(
	    t.name[0] && strlen(t.name) < sizeof t.name && t.cols > 0 && (t.sparse || t.rows > 0));
	check(
	    t.rows <= (UINT64_C(1) << 40) / t.cols && isfinite(t.init_limit) && t.init_limit >= 0);
	back = table_to_json(&t);
	check(back && table_from_json(back, &again, &e) == ERR_OK);
	check(strcmp(t.name, again.name) == 0 && t.sparse == again.sparse &&
	    t.decay == again.decay && t.rows == again.rows && t.cols == again.cols &&
	    t.init == again.init && t.seed == again.seed);
	json_decref(back);
}

static void layout_within(const struct layout *l)
{
	for (size_t i = 0; i < l->ntables; i++) {
		const struct table *t = &l->table[i];

		check(t->id == i && t->nparts > 0 && layout_find(l, t->name) == t);
		check(table_part_of(t, i) < t->nparts || !t->sparse);
		for (size_t k = 0; k < t->nruns; k++) {
			const struct run *r = &t->run[k];

			check(r->first < t->nparts && r->count <= t->nparts - r->first);
			check(r->nchain <= CHAIN_MAX && r->count > 0);
			check(k == 0 || r->first >= r[-1].first + r[-1].count);
			check(table_run(t, r->first) == r &&
			    table_run(t, r->first + r->count - 1) == r);
		}
	}
}

static void layout(const json_t *j)
{
	struct layout l, again;
	struct err e = { 0 };
	json_t *back, *twice;

	if (layout_from_json(j, &l, &e)) {
		check(e.code != ERR_OK && e.msg[0] && l.ntables == 0);
		return;
	}
	layout_within(&l);
	back = layout_to_json(&l);
	check(back && layout_from_json(back, &again, &e) == ERR_OK && again.ntables == l.ntables);
	twice = layout_to_json(&again);
	check(json_equal(back, twice));
	json_decref(back);
	json_decref(twice);
	layout_release(&l);
	layout_release(&again);
}

static void json(const uint8_t *p, size_t n, void (*use)(const json_t *j))
{
	struct err e = { 0 };
	json_t *j = json_parse((const char *)p, n, RECORD_MAX, &e);

	check(j || (e.code && e.msg[0]));
	if (j)
		use(j);
	json_decref(j);
}

/* ---- a coordinator ---- */

enum { WHO_RAW = 128, SAYING_HEAD = 4 };

/* A message of kind `op`, or of an operation called `text` if that is MESSAGE_KINDS, with every
 * member that some operation reads, and the text where it may be one. */
static json_t *message(unsigned op, unsigned who, const char *text)
{
	json_t *m = json_object();
	const char *const texts[] = { "message", "host", "zone", "unix", "code", "optimizer" };

	json_object_set_new(m, "op",
	    json_string_nocheck(op < MESSAGE_KINDS ? message_op((enum message_kind)op) : text));
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		json_object_set_new(m, texts[i], json_string_nocheck(text));
	json_object_set_new(m, "state", json_string_nocheck(strlen(text) % 2 ? "failed" : "taken"));
	json_object_set_new(m, "tcp", json_string_nocheck(strlen(text) % 4 ? "h:1" : text));
	json_object_set_new(m, "index", json_integer(who < 2 ? (int)who : -1));
	json_object_set_new(m, "rank", json_integer(who < 2 ? -1 : (int)who - 2));
	json_object_set_new(m, "pid", json_integer(100));
	json_object_set_new(m, "examples", json_integer(100));
	json_object_set_new(m, "step", json_integer((json_int_t)strlen(text)));
	json_object_set_new(m, "steps", json_integer((json_int_t)strlen(text)));
	json_object_set_new(m, "first_free", json_integer((json_int_t)strlen(text)));
	json_object_set_new(m, "clock", json_integer((json_int_t)strlen(text)));
	json_object_set_new(m, "rev", json_integer((json_int_t)strlen(text)));
	json_object_set_new(m, "id", json_integer(1));
	json_object_set_new(m, "yes", json_true());
	json_object_set_new(m, "more", json_true());
	json_object_set_new(m, "holds", json_array());
	json_object_set_new(m, "done", json_array());
	json_object_set_new(m, "facts", json_pack("{s:o}", "about", json_string_nocheck(text)));
	json_object_set_new(m, "stats",
	    json_pack("{s:i, s:o}", "step", 1, "doing", json_string_nocheck(text)));
	json_object_set_new(m, "about", json_pack("{s:o}", "version", json_string_nocheck(text)));
	json_object_set_new(m, "eval", json_pack("{s:f}", "loss", 0.5));
	json_object_set_new(m, "tables",
	    json_pack("[{s:o, s:i, s:i}]", "name",
	        json_string_nocheck(op == MESSAGE_table ? text : "w"), "rows", 5, "cols", 1));
	return m;
}

static void say(struct coordinator *f, unsigned who, unsigned op, const char *text, size_t n)
{
	struct buf repaired = BUF_INIT;
	json_t *m;
	char *sent;

	buf_puts(&repaired, "");
	utf8_repair(&repaired, text, n);
	m = message(op, who, repaired.data ? (const char *)repaired.data : "");
	sent = json_text(m);
	coordinator_hear(f, who, (const uint8_t *)sent, strlen(sent));
	free(sent);
	json_decref(m);
	buf_release(&repaired);
}

static struct entry saying(const uint8_t *p, size_t n)
{
	return (struct entry){ SAYING_HEAD + (n < SAYING_HEAD ? 0u : get_le16(p + 2)), SAYING_HEAD,
		2, 2 };
}

static void coordinator(const uint8_t *p, size_t n, bool bsp)
{
	struct coordinator *f = coordinator_begin(bsp);

	while (n >= SAYING_HEAD) {
		size_t size = saying(p, n).size, len;
		unsigned who = p[0] % SPEAKERS, op = p[1];

		size = size < n ? size : n;
		len = size - SAYING_HEAD;
		if (op == 255) {
			f->now += (int64_t)len * 100 * NSEC_PER_MSEC;
			coord_tick(f->c, f->now);
			coordinator_look(f);
		} else if (op == 254) {
			coord_session_gone(f->c, &f->self[who], f->now);
		} else if (p[0] & WHO_RAW) {
			coordinator_hear(f, who, p + SAYING_HEAD, len);
		} else {
			say(f, who, op % (MESSAGE_KINDS + 1), (const char *)p + SAYING_HEAD, len);
		}
		p += size;
		n -= size;
	}
	coordinator_end(f);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
	return n && data[0] % 16 >= 8 ? script_mutate(data, n, most, seed, saying)
	                              : LLVMFuzzerMutate(data, n, most);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n == 0)
		return 0;
	if (data[0] % 16 >= 8) {
		coordinator(data + 1, n - 1, data[0] % 2);
		return 0;
	}
	switch (data[0] % 8) {
	case 0:
		runs(data + 1, n - 1);
		break;
	case 1:
		receipts(data + 1, n - 1);
		break;
	case 2:
		copied(data + 1, n - 1);
		break;
	case 3:
		nack(data + 1, n - 1);
		break;
	case 4:
		rows(data + 1, n - 1);
		break;
	case 5:
		batch(data + 1, n - 1);
		break;
	case 6:
		json(data + 1, n - 1, table);
		break;
	default:
		json(data + 1, n - 1, layout);
		break;
	}
	return 0;
}
