/* SPDX-License-Identifier: ISC */
/* The state store in etcd (state/state_store_etcd.c), over an etcd in this process: after the death of the
 * owner at each request, before or after etcd has done it, after each request that fails or whose
 * answer is lost, and when another coordinator takes over at each request, a reader finds the former
 * state or the new one, with all leases that were acknowledged, and nothing is left of the others. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/state_store.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "etcd/etcd.h"
#include "tap.h"

/* ---- what happens to a request ---- */

enum trouble { DIE, LOSE, TAKE_OVER };

/* What happens at request number `at`, counted from 1 (0: nothing): its client ends, its client gets
 * an error, or another coordinator takes over before it. done: etcd has carried it out. */
static struct {
	int at, calls;
	enum trouble what;
	bool done;
	void (*take_over)(void);
} trouble;

struct etcd {
	bool dead; /* the process of this client has ended */
};

static void arrange_trouble(enum trouble what, bool done, int at)
{
	trouble.what = what;
	trouble.done = done;
	trouble.calls = 0;
	trouble.at = at;
}

/* Did a request meet the trouble? */
static bool end_trouble(void)
{
	bool met = trouble.at && trouble.calls >= trouble.at;

	trouble.at = 0;
	return met;
}

/* A request arrives. ERR_IO: its client gets no answer; *carried_out: etcd does it nevertheless. */
static enum err_code arrive(struct etcd *c, bool *carried_out, struct err *e)
{
	*carried_out = !c->dead;
	if (c->dead)
		return err_set(e, ERR_IO, "ended");
	if (!trouble.at || ++trouble.calls != trouble.at)
		return ERR_OK;
	if (trouble.what == TAKE_OVER) {
		int at = trouble.at;

		trouble.at = 0;
		trouble.take_over();
		trouble.at = at;
		return ERR_OK;
	}
	c->dead = trouble.what == DIE;
	*carried_out = trouble.done;
	return err_set(e, ERR_IO, "no answer");
}

/* ---- etcd ---- */

struct kv {
	char *key;
	struct buf value;
	int64_t create, mod, lease;
};

/* The keys in order. */
static struct {
	struct kv *kv;
	size_t n;
	int64_t revision, lease;
	bool expired[4096]; /* leases */
} all;

static size_t place_of(const char *key)
{
	size_t i = 0;

	while (i < all.n && strcmp(all.kv[i].key, key) < 0)
		i++;
	return i;
}

static struct kv *find(const char *key)
{
	size_t i = place_of(key);

	return i < all.n && strcmp(all.kv[i].key, key) == 0 ? &all.kv[i] : NULL;
}

static void drop_at(size_t i)
{
	free(all.kv[i].key);
	buf_release(&all.kv[i].value);
	memmove(&all.kv[i], &all.kv[i + 1], (all.n - i - 1) * sizeof *all.kv);
	all.n--;
}

static void forget_all(void)
{
	while (all.n)
		drop_at(0);
}

/* The time of a lease is over. */
static void expire(int64_t lease)
{
	all.expired[lease] = true;
	for (size_t i = all.n; i-- > 0;)
		if (all.kv[i].lease == lease)
			drop_at(i);
}

static unsigned count_keys(const char *prefix)
{
	unsigned n = 0;

	for (size_t i = 0; i < all.n; i++)
		n += strncmp(all.kv[i].key, prefix, strlen(prefix)) == 0;
	return n;
}

enum err_code etcd_open(const char *url, struct etcd **out, struct err *e)
{
	(void)url;
	(void)e;
	*out = mem_alloc(sizeof **out);
	return ERR_OK;
}

void etcd_close(struct etcd *c)
{
	free(c);
}

const char *etcd_where(const struct etcd *c)
{
	(void)c;
	return "etcd://h:1/p";
}

void etcd_kvs_release(struct etcd_kvs *kvs)
{
	for (size_t i = 0; i < kvs->n; i++) {
		free(kvs->kv[i].key);
		buf_release(&kvs->kv[i].value);
	}
	free(kvs->kv);
	*kvs = (struct etcd_kvs){ 0 };
}

enum err_code etcd_lease_grant(struct etcd *c, int64_t *ttl, int64_t patience, int64_t *lease,
    struct err *e)
{
	bool done;
	enum err_code rc = arrive(c, &done, e);

	(void)ttl;
	(void)patience;
	if (done)
		all.lease++;
	if (!rc)
		*lease = all.lease;
	return rc;
}

enum err_code etcd_lease_keep(struct etcd *c, int64_t lease, int64_t patience, bool *alive,
    struct err *e)
{
	bool done;
	enum err_code rc = arrive(c, &done, e);

	(void)patience;
	if (!rc)
		*alive = !all.expired[lease];
	return rc;
}

enum err_code etcd_lease_revoke(struct etcd *c, int64_t lease, int64_t patience, struct err *e)
{
	bool done;
	enum err_code rc = arrive(c, &done, e);

	(void)patience;
	if (done)
		expire(lease);
	return rc;
}

void etcd_compact(struct etcd *c, int64_t revision, int64_t patience)
{
	bool done;

	(void)revision;
	(void)patience;
	arrive(c, &done, NULL);
}

/* Answers one request for keys from `from` on, of which `skip` have been answered. */
static void answer_range(const char *prefix, const char *from, unsigned most, struct etcd_kvs *out,
    bool *more)
{
	unsigned n = 0;

	*more = false;
	for (size_t i = place_of(from); i < all.n; i++) {
		const struct kv *kv = &all.kv[i];

		if (strncmp(kv->key, prefix, strlen(prefix)) != 0 || strcmp(kv->key, from) < 0)
			continue;
		*more = most && n == most;
		if (*more)
			return;
		n++;
		out->kv = mem_regrow(out->kv, out->n + 1, sizeof *out->kv);
		out->kv[out->n] = (struct etcd_kv){ .key = mem_strdup(kv->key),
			.create_revision = kv->create,
			.mod_revision = kv->mod };
		if (most)
			buf_append(&out->kv[out->n].value, kv->value.data, kv->value.len);
		out->n++;
	}
}

enum err_code etcd_read(struct etcd *c, const char *key, unsigned most, int64_t patience,
    struct etcd_kvs *out, struct err *e)
{
	char *from = mem_strdup(key);
	enum err_code rc;
	bool done, more = false;

	(void)patience;
	*out = (struct etcd_kvs){ 0 };
	do {
		rc = arrive(c, &done, e);
		if (rc)
			break;
		answer_range(key, from, most, out, &more);
		if (more) {
			free(from);
			from = mem_printf("%s\1", out->kv[out->n - 1].key);
		}
	} while (more);
	if (rc)
		etcd_kvs_release(out);
	free(from);
	return rc;
}

/* A condition or a write of a transaction, whose document has its address. */
struct op {
	enum { CREATED, WRITTEN, PUT, DELETE } what;
	char *key, *end;
	int64_t revision, lease;
	struct buf value;
};

static void add_op(json_t *list, const struct op *op)
{
	struct op *copy = mem_alloc(sizeof *copy);

	*copy = *op;
	json_array_append_new(list, json_integer((json_int_t)(intptr_t)copy));
}

static struct op *op_at(const json_t *list, size_t i)
{
	return (struct op *)(intptr_t)json_integer_value(json_array_get(list, i));
}

static void drop_ops(json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct op *op = op_at(list, i);

		free(op->key);
		free(op->end);
		buf_release(&op->value);
		free(op);
	}
	json_decref(list);
}

void etcd_txn_begin(struct etcd_txn *t)
{
	t->compare = json_array();
	t->success = json_array();
}

void etcd_if_created(struct etcd *c, struct etcd_txn *t, const char *key, int64_t revision)
{
	(void)c;
	add_op(t->compare,
	    &(const struct op){ .what = CREATED, .key = mem_strdup(key), .revision = revision });
}

void etcd_if_written(struct etcd *c, struct etcd_txn *t, const char *key, int64_t revision)
{
	(void)c;
	add_op(t->compare,
	    &(const struct op){ .what = WRITTEN, .key = mem_strdup(key), .revision = revision });
}

void etcd_put(struct etcd *c, struct etcd_txn *t, const char *key, const void *value, size_t n,
    int64_t lease)
{
	struct op op = { .what = PUT, .key = mem_strdup(key), .lease = lease };

	(void)c;
	buf_append(&op.value, value, n);
	add_op(t->success, &op);
}

void etcd_delete(struct etcd *c, struct etcd_txn *t, const char *key)
{
	(void)c;
	add_op(t->success, &(const struct op){ .what = DELETE, .key = mem_strdup(key) });
}

void etcd_delete_range(struct etcd *c, struct etcd_txn *t, const char *key, const char *end)
{
	(void)c;
	add_op(t->success,
	    &(const struct op){ .what = DELETE, .key = mem_strdup(key), .end = mem_strdup(end) });
}

void etcd_txn_drop(struct etcd_txn *t)
{
	drop_ops(t->compare);
	drop_ops(t->success);
	*t = (struct etcd_txn){ 0 };
}

static bool holds(const struct op *op)
{
	const struct kv *kv = find(op->key);

	return (!kv ? 0 : op->what == CREATED ? kv->create : kv->mod) == op->revision;
}

static bool is_deleted_by(const char *key, const struct op *op)
{
	return op->what == DELETE &&
	    (op->end ? strcmp(key, op->key) >= 0 && strcmp(key, op->end) < 0
	             : strcmp(key, op->key) == 0);
}

/* Would etcd refuse it? It has at most 128 operations and 1.5 MiB by default, and writes no key twice. */
static bool is_refused(const struct etcd_txn *t)
{
	size_t n = json_array_size(t->success), bytes = 0;

	for (size_t i = 0; i < n; i++) {
		const struct op *put = op_at(t->success, i);

		bytes += put->value.len;
		for (size_t k = 0; put->what == PUT && k < n; k++) {
			const struct op *other = op_at(t->success, k);

			if (is_deleted_by(put->key, other) ||
			    (k != i && other->what == PUT && strcmp(put->key, other->key) == 0))
				return true;
		}
	}
	return n > 128 || bytes > ((size_t)3 << 19);
}

static void carry_out(const struct op *op)
{
	struct kv *kv = op->what == PUT ? find(op->key) : NULL;

	for (size_t i = all.n; i-- > 0;)
		if (is_deleted_by(all.kv[i].key, op))
			drop_at(i);
	if (op->what != PUT)
		return;
	if (!kv) {
		size_t at = place_of(op->key);

		all.kv = mem_regrow(all.kv, all.n + 1, sizeof *all.kv);
		memmove(&all.kv[at + 1], &all.kv[at], (all.n - at) * sizeof *all.kv);
		all.n++;
		kv = &all.kv[at];
		*kv = (struct kv){ .key = mem_strdup(op->key), .create = all.revision };
	}
	buf_clear(&kv->value);
	buf_append(&kv->value, op->value.data, op->value.len);
	kv->mod = all.revision;
	kv->lease = op->lease;
}

enum err_code etcd_commit(struct etcd *c, struct etcd_txn *t, int64_t patience, bool *done,
    int64_t *revision, struct err *e)
{
	bool carried_out, good = true;
	enum err_code rc = arrive(c, &carried_out, e);

	(void)patience;
	if (!rc && is_refused(t))
		rc = err_set(e, ERR_CONFIG, "a transaction that etcd refuses");
	for (size_t i = 0; i < json_array_size(t->compare); i++)
		good = good && holds(op_at(t->compare, i));
	if (carried_out && rc != ERR_CONFIG && good) {
		all.revision++;
		for (size_t i = 0; i < json_array_size(t->success); i++)
			carry_out(op_at(t->success, i));
	}
	etcd_txn_drop(t);
	if (!rc)
		*done = good;
	if (!rc && revision)
		*revision = all.revision;
	return rc;
}

/* ---- states and logs ---- */

static struct log quiet;

static struct state_store *open_as(uint64_t incarnation)
{
	const struct state_store_config cfg = { .url = "etcd://h:1/p",
		.incarnation = incarnation,
		.log = &quiet };

	return state_store_open(&cfg);
}

/* Makes the text of a part of state X, with its length in KiB. State B has no description, and the settings
 * of state A. Its layout has five pieces, which do not go into one transaction. */
static char *make_text(char state, enum state_part part)
{
	static const size_t length[STATE_PARTS] = { [STATE_PART_membership] = 1,
		[STATE_PART_layout] = 1200,
		[STATE_PART_description] = 300,
		[STATE_PART_leases] = 256 };
	size_t n = (length[part] << 10) + 2;
	char *text;

	if (state == 'B' && part == STATE_PART_description)
		return NULL;
	state = state == 'B' && part == STATE_PART_settings ? 'A' : state;
	text = mem_array(n + 1, 1);
	memset(text, state, n);
	text[0] = '"';
	text[n - 1] = '"';
	text[n] = '\0';
	return text;
}

static enum err_code write_state(struct state_store *s, char state)
{
	struct state_text text[STATE_PARTS] = { 0 };
	struct err e = { 0 };
	enum err_code rc;

	for (enum state_part i = 0; i < STATE_PARTS; i++) {
		text[i].text = make_text(state, i);
		text[i].size = text[i].text ? strlen(text[i].text) : 0;
	}
	rc = state_store_write(s, text, &e);
	if (rc && rc != ERR_IO && rc != ERR_FENCED)
		printf("# %s\n", e.msg);
	for (enum state_part i = 0; i < STATE_PARTS; i++)
		free((char *)(uintptr_t)text[i].text);
	return rc;
}

/* Which state is there? '0': none. '?': parts of several, or an error. */
static char read_state(struct state_store *s)
{
	struct state_values v;
	struct err e = { 0 };
	enum err_code rc = state_store_read(s, &v, &e);
	char found = rc || v.part[STATE_PART_membership].len ? '?' : '0';

	for (char state = 'A'; !rc && state <= 'C'; state++) {
		bool same = true;

		for (enum state_part i = 0; i < STATE_PARTS; i++) {
			char *want = make_text(state, i);
			size_t n = want ? strlen(want) : 0;

			same = same && v.part[i].len == n &&
			    (!n || memcmp(v.part[i].data, want, n) == 0);
			free(want);
		}
		found = same ? state : found;
	}
	if (found == '?')
		printf("# %s\n", rc ? e.msg : "parts of several states");
	state_values_release(&v);
	return found;
}

/* Records of the log are 200 KiB long and begin with a number. */
#define RECORD ((size_t)200 << 10)

static enum err_code append(struct state_store *s, unsigned from, unsigned n, bool drop)
{
	struct buf b = BUF_INIT;
	struct err e = { 0 };
	enum err_code rc;

	for (unsigned i = from; i < from + n; i++) {
		size_t begin = b.len;

		buf_printf(&b, "%08u", i);
		while (b.len < begin + RECORD)
			buf_append(&b, "........", 8);
	}
	rc = s->ops->append(s, &b, drop, &e);
	buf_release(&b);
	return rc;
}

/* Reads the log. Are its records numbered without a gap, from at most `least` on and up to at least `most`?
 * A number that is lower than the one before it ends it. */
static bool log_has(struct state_store *s, unsigned least, unsigned most)
{
	struct buf b = BUF_INIT;
	struct err e = { 0 };
	unsigned first = 0, last = 0;

	if (s->ops->read_log(s, &b, &e))
		return false;
	for (size_t at = 0; at + RECORD <= b.len; at += RECORD) {
		unsigned number = (unsigned)strtoul((char *)b.data + at, NULL, 10);

		if (last && number != last + 1)
			break;
		first = first ? first : number;
		last = number;
	}
	buf_release(&b);
	if (!most || (first && first <= least && last >= most))
		return true;
	printf("# the log has %u to %u, not %u to %u\n", first, last, least, most);
	return false;
}

/* The next coordinator: reads the state, as it would after an earlier one has ended. */
static struct state_store *take_over(uint64_t incarnation, char *found)
{
	struct state_store *s = open_as(incarnation);
	struct err e = { 0 };

	if (s->ops->become_owner(s, &e))
		printf("# %s\n", e.msg);
	*found = read_state(s);
	return s;
}

/* Etcd has state A, of a coordinator that has ended. */
static void begin_with_a(void)
{
	struct state_store *s;
	char found;

	forget_all();
	s = take_over(1, &found);
	write_state(s, 'A');
	state_store_close(s);
}

/* A coordinator after that one, with its log. */
static struct state_store *begin_second(void)
{
	struct state_store *s;
	struct err e = { 0 };
	char found;

	begin_with_a();
	s = take_over(2, &found);
	s->ops->begin_log(s, &e);
	return s;
}

/* Pieces of state C: 1 + 5 + 1 + 2 + 2 */
#define KEYS_OF_C 11

/* When state C is written, are its keys, the index, the owner's and the log's all that is left? */
static bool ends_with_c(struct state_store *s)
{
	bool written = write_state(s, 'C') == ERR_OK;

	s->ops->clean(s);
	if (written && count_keys("state/") != KEYS_OF_C)
		printf("# %u keys of the state\n", count_keys("state/"));
	return written && read_state(s) == 'C' && count_keys("state/") == KEYS_OF_C &&
	    all.n == KEYS_OF_C + 2 + count_keys("log/") + count_keys("logged");
}

/* ---- the cases ---- */

/* The owner ends at each request of a write. */
static void test_deaths(bool done)
{
	bool whole = true, tidy = true, met = true;
	int at = 0, old = 0;

	while (met) {
		struct state_store *s = begin_second();
		enum err_code rc;
		char found;

		arrange_trouble(DIE, done, ++at);
		rc = write_state(s, 'B');
		met = end_trouble();
		state_store_close(s);
		s = take_over(3, &found);
		whole = whole && (found == 'A' || found == 'B') && (rc || found == 'B');
		old += found == 'A';
		tidy = tidy && ends_with_c(s);
		state_store_close(s);
	}
	ok(whole && at > 2 && old >= 1,
	    "an owner that ends %s each of %d requests of a write: %d times the former state",
	    done ? "after" : "before", at - 1, old);
	ok(tidy, "and its successor removes what is left");
}

/* A request of a write fails, or its answer is lost; the owner goes on. */
static void test_lost_answers(bool done)
{
	bool good = true, met = true;
	int at = 0;

	while (met) {
		struct state_store *s = begin_second();
		enum err_code rc;
		char found;

		arrange_trouble(LOSE, done, ++at);
		rc = write_state(s, 'B');
		met = end_trouble();
		found = read_state(s);
		good = good && (found == 'B' || (rc && found == 'A'));
		/* The former state again, after which nothing of the new one may be there. */
		good = good && write_state(s, 'A') == ERR_OK && read_state(s) == 'A' &&
		    ends_with_c(s);
		state_store_close(s);
	}
	ok(good && at > 2, "after each of %d requests that %s, another write succeeds", at - 1,
	    done ? "has no answer" : "fails");
}

static struct state_store *successor;
static char inherited;

static void let_successor_take_over(void)
{
	successor = take_over(3, &inherited);
}

/* Another coordinator takes over before each request of a write. */
static void test_fence(void)
{
	bool good = true;
	int at = 0, fenced = 0;

	trouble.take_over = let_successor_take_over;
	do {
		struct state_store *s = begin_second();
		enum err_code rc;

		successor = NULL;
		arrange_trouble(TAKE_OVER, false, ++at);
		rc = write_state(s, 'B');
		end_trouble();
		if (successor) {
			fenced += rc == ERR_FENCED;
			good = good && inherited == (rc ? 'A' : 'B') &&
			    read_state(successor) == inherited &&
			    write_state(s, 'B') == ERR_FENCED &&
			    append(s, 1, 1, false) == ERR_FENCED &&
			    write_state(successor, 'C') == ERR_OK;
			s->ops->clean(s);
			good = good && read_state(successor) == 'C' && ends_with_c(successor);
			state_store_close(successor);
		}
		state_store_close(s);
	} while (successor);
	ok(good && fenced > 1,
	    "overtaken before each of %d requests, %d times too early: its successor goes by what it has read",
	    at - 1, fenced);
}

/* How a process becomes the owner, with each kind of trouble. */
static void test_becoming_owner(enum trouble what, bool done, const char *how)
{
	bool good = true, met = true;
	int at = 0;

	trouble.take_over = let_successor_take_over;
	while (met) {
		struct state_store *s;
		struct err e = { 0 };
		enum err_code rc;
		char found = 'A';

		begin_with_a();
		s = open_as(2);
		successor = NULL;
		arrange_trouble(what, done, ++at);
		rc = s->ops->become_owner(s, &e);
		met = end_trouble();
		if (what == LOSE) {
			good = good && (!met || rc == ERR_IO || rc == ERR_OK);
			rc = rc ? s->ops->become_owner(s, &e) : rc;
			good = good && !rc && read_state(s) == 'A' && ends_with_c(s);
		} else if (what == DIE) {
			state_store_close(s);
			s = take_over(3, &found);
			good = good && found == 'A' && ends_with_c(s);
		} else if (successor) {
			bool first = rc == ERR_OK;

			/* Exactly one of them can write, and it knows that. */
			read_state(first ? s : successor);
			good = good && (first || rc == ERR_NOTREADY || rc == ERR_EXISTS) &&
			    (write_state(first ? s : successor, 'C') == ERR_OK) &&
			    (!first || write_state(successor, 'B') == ERR_FENCED) &&
			    read_state(first ? s : successor) == 'C';
			state_store_close(successor);
		}
		state_store_close(s);
	}
	ok(good && at > 3, "becoming the owner: %s each of %d requests", how, at - 1);
}

/* Trouble at each request of an append of three keys, which drops two earlier ones. */
static void test_log(enum trouble what, bool done, const char *how)
{
	bool good = true, met = true;
	int at = 0;

	trouble.take_over = let_successor_take_over;
	while (met) {
		struct state_store *s = begin_second();
		enum err_code rc;
		char found;

		successor = NULL;
		good = good && !write_state(s, 'B') && !append(s, 1, 1, false) &&
		    !append(s, 2, 1, false);
		arrange_trouble(what, done, ++at);
		rc = append(s, 3, 3, true);
		met = end_trouble();
		if (what == LOSE) {
			/* Two tries: the first one may learn that the failed one was done. */
			rc = rc ? append(s, 3, 3, true) : rc;
			rc = rc ? append(s, 3, 3, true) : rc;
			good = good && !rc && !append(s, 6, 1, false);
		}
		state_store_close(s);
		s = successor ? successor : take_over(3, &found);
		/* An append that has failed may have left any number of records. */
		good = good && (successor || found == 'B') &&
		    log_has(s, 3,
		        what == LOSE ? 6
		            : rc     ? 0
		                     : 5) &&
		    ends_with_c(s) && !count_keys("log/");
		state_store_close(s);
	}
	ok(good && at > 3, "the log: %s each of %d requests", how, at - 1);
}

/* Trouble at each request of what removes the keys of others. */
static void test_cleaning(enum trouble what, bool done, const char *how)
{
	bool good = true, met = true;
	int at = 0;

	while (met) {
		struct state_store *s = begin_second();
		char found;

		/* A write that has failed in the middle leaves keys. */
		arrange_trouble(DIE, true, 1);
		write_state(s, 'B');
		end_trouble();
		state_store_close(s);
		s = take_over(3, &found);
		good = good && found == 'A' && !write_state(s, 'B');
		arrange_trouble(what, done, ++at);
		s->ops->clean(s);
		met = end_trouble();
		if (what == DIE) {
			state_store_close(s);
			s = take_over(4, &found);
			good = good && found == 'B';
		}
		good = good && read_state(s) == 'B' && ends_with_c(s);
		state_store_close(s);
	}
	ok(good && at > 2, "cleaning: %s each of %d requests", how, at - 1);
}

/* A process that stands by is in the list whatever happened to its first requests. */
static void test_standing_by(bool done)
{
	static const struct state_standby self = { .data = "10.0.0.2:1", .http = "10.0.0.2:2" };
	bool good = true, met = true;
	int at = 0;

	while (met) {
		struct state_store *owner = begin_second(), *s = open_as(5);
		struct state_standbys found;
		struct err e = { 0 };
		enum err_code rc;
		bool none;

		arrange_trouble(LOSE, done, ++at);
		rc = s->ops->stand_by(s, &self, &none, &e);
		met = end_trouble();
		good = good && (rc || !met) && !(rc && none);
		for (int i = 0; i < 2; i++)
			good = good && !s->ops->stand_by(s, &self, &none, &e);
		good = good && owner->ops->list_standbys(owner, &found) && found.n == 1 &&
		    strcmp(found.at[0].data, self.data) == 0;
		/* It goes with its lease, also when its process cannot remove it. */
		for (int64_t lease = 1; lease <= all.lease; lease++)
			expire(lease);
		good = good && owner->ops->list_standbys(owner, &found) && !found.n;
		state_store_close(s);
		state_store_close(owner);
	}
	ok(good && at > 3, "a standby is listed after each of %d requests that %s", at - 1,
	    done ? "has no answer" : "fails");
}

/* An owner is told when its lease has ended, and beats fail while etcd does not answer. */
static void test_beats(void)
{
	bool good = true, met = true;
	int at = 0;

	while (met) {
		struct state_store *s = begin_second();
		struct err e = { 0 };
		enum err_code rc;

		arrange_trouble(LOSE, false, ++at);
		rc = s->ops->beat(s, &e);
		met = end_trouble();
		/* Its second request is for compaction, whose failure harms nobody. */
		good = good && rc == (at == 1 ? ERR_IO : ERR_OK) && !s->ops->beat(s, &e);
		for (int64_t lease = 1; lease <= all.lease; lease++)
			expire(lease);
		good = good && s->ops->beat(s, &e) == ERR_CLOSED &&
		    write_state(s, 'B') == ERR_CLOSED;
		state_store_close(s);
	}
	ok(good && at > 2, "beats: each of %d requests fails, and then the lease ends", at - 1);
}

/* Etcd is away for many writes, some of which it has done. */
static void test_long_absence(void)
{
	struct state_store *s = begin_second();
	bool good = true;

	for (int i = 0; i < 90; i++) {
		arrange_trouble(LOSE, i % 2, 2);
		good = good && write_state(s, i % 3 ? 'B' : 'C') == ERR_IO;
		end_trouble();
	}
	/* Two tries: the first one may learn that the failed one was done. */
	good = good && (!write_state(s, 'B') || !write_state(s, 'B')) && read_state(s) == 'B';
	ok(good, "after 90 writes that have failed another one succeeds");
	for (int i = 0; i < 4; i++)
		write_state(s, i % 2 ? 'A' : 'C');
	ok(write_state(s, 'C') == ERR_OK && count_keys("state/") == KEYS_OF_C,
	    "and further ones remove what they have left: %u keys", count_keys("state/"));
	state_store_close(s);
}

int main(void)
{
	log_init(&quiet, "test", -1, LOG_LEVEL_ERROR);
	test_deaths(false);
	test_deaths(true);
	test_lost_answers(false);
	test_lost_answers(true);
	test_fence();
	test_becoming_owner(DIE, false, "the process ends before");
	test_becoming_owner(DIE, true, "the process ends after");
	test_becoming_owner(LOSE, false, "a failure of");
	test_becoming_owner(LOSE, true, "a lost answer to");
	test_becoming_owner(TAKE_OVER, false, "another one becomes it before");
	test_log(DIE, false, "the owner ends before");
	test_log(DIE, true, "the owner ends after");
	test_log(LOSE, false, "a failure of");
	test_log(LOSE, true, "a lost answer to");
	test_log(TAKE_OVER, false, "another owner before");
	test_cleaning(DIE, false, "the owner ends before");
	test_cleaning(DIE, true, "the owner ends after");
	test_cleaning(LOSE, true, "a lost answer to");
	test_standing_by(false);
	test_standing_by(true);
	test_beats();
	test_long_absence();
	forget_all();
	free(all.kv);
	return tap_done();
}
