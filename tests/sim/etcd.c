/* SPDX-License-Identifier: ISC */
#include "tests/sim/etcd.h"

#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/calls.h"
#include "tests/sim/parts.h"

/* An etcd of three members, by the JSON of its gateway: what the coordinator's store asks of it (lib/net/etcd),
 * as etcd 3.4 and later answer it. A key has the revisions of its creation and of its last write; a
 * transaction is all or nothing and has one revision; a lease that has ended takes its keys with it.
 *
 * All that is answered is linearizable: a request is applied at one moment between its beginning and its
 * answer. Without an answer it may have been applied, or be applied later, or never. Faults, as the seed draws them:
 *
 *   requests  are lost, or late by up to some seconds, also when nobody waits for them any more
 *   answers   are lost, or late
 *   repeats   a request is applied once more, at any later time, as by a proxy that has lost the answer
 *   members   do not answer for a while, or refuse; without two of them, or without a leader, none answers
 *   leases    end late, as when another member has become the leader; in some seeds also too early
 *   hosts     do not reach it (etcd_cut) */

#define MEMBERS    3
#define LEASES     256
#define OPS_MOST   128
#define BYTES_MOST (3u << 19)

struct text {
	char *at;
	size_t n;
};

struct kv {
	struct text key, value;
	int64_t created, written, version, lease;
};

struct lease {
	int64_t id; /* 0: free */
	int64_t ttl, ends;
};

struct member_of_etcd {
	bool refuses;
	int64_t frozen_until;
};

static struct {
	bool any;
	int64_t revision, next_lease;
	struct kv *kv; /* in the order of their keys */
	size_t n, cap;
	struct lease lease[LEASES];
	struct member_of_etcd member[MEMBERS];
	unsigned leader;
	int64_t leaderless_until;
	bool cut[SLOTS_MAX];
	struct etcd_exchange *all;
	/* faults, in percent, and times */
	unsigned loses_requests, loses_answers, repeats, freezes;
	int64_t slowest, late, gap;
	bool early;
} s;

static void *must(void *p)
{
	if (!p)
		sim_panic("no memory for etcd");
	return p;
}

/* ---- keys ---- */

static int compare_text(const struct text *a, const struct text *b)
{
	size_t n = a->n < b->n ? a->n : b->n;
	int order = memcmp(a->at, b->at, n);

	return order ? order : (a->n > b->n) - (a->n < b->n);
}

/* The place of the first key that is not less. */
static size_t find_place(const struct text *key)
{
	size_t low = 0, high = s.n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare_text(&s.kv[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct kv *find_kv(const struct text *key)
{
	size_t at = find_place(key);

	return at < s.n && compare_text(&s.kv[at].key, key) == 0 ? &s.kv[at] : NULL;
}

/* Takes both texts. */
static void put_kv(struct text key, struct text value, int64_t lease)
{
	size_t at = find_place(&key);

	if (at < s.n && compare_text(&s.kv[at].key, &key) == 0) {
		free(key.at);
		free(s.kv[at].value.at);
	} else {
		if (s.n == s.cap) {
			s.cap = s.cap ? 2 * s.cap : 64;
			s.kv = must(realloc(s.kv, s.cap * sizeof *s.kv));
		}
		memmove(&s.kv[at + 1], &s.kv[at], (s.n++ - at) * sizeof *s.kv);
		s.kv[at] = (struct kv){ .key = key, .created = s.revision };
	}
	s.kv[at].value = value;
	s.kv[at].written = s.revision;
	s.kv[at].version++;
	s.kv[at].lease = lease;
}

static void delete_kv(size_t at)
{
	free(s.kv[at].key.at);
	free(s.kv[at].value.at);
	memmove(&s.kv[at], &s.kv[at + 1], (--s.n - at) * sizeof *s.kv);
}

/* ---- JSON ---- */

static const char *member_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

static int64_t member_int(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) ? json_integer_value(v) : strtoll(member_text(o, key), NULL, 10);
}

static struct text member_bytes(const json_t *o, const char *key)
{
	const char *text = member_text(o, key);
	size_t n = strlen(text);
	struct text out = { must(malloc(n + 1)), 0 };

	if (sodium_base642bin((unsigned char *)out.at, n + 1, text, n, NULL, &out.n, NULL,
	        sodium_base64_VARIANT_ORIGINAL))
		sim_panic("etcd is sent what is not base64");
	return out;
}

static json_t *bytes_value(const struct text *t)
{
	size_t n = sodium_base64_ENCODED_LEN(t->n, sodium_base64_VARIANT_ORIGINAL);
	char *text = must(malloc(n));
	json_t *v;

	sodium_bin2base64(text, n, (const unsigned char *)t->at, t->n,
	    sodium_base64_VARIANT_ORIGINAL);
	v = json_string(text);
	free(text);
	return v;
}

/* 64-bit integers are strings, and are left out when they are 0. */
static void set_int(json_t *o, const char *key, int64_t v)
{
	if (v)
		json_object_set_new(o, key, json_sprintf("%" PRId64, v));
}

static json_t *begin_reply(void)
{
	json_t *o = json_object(), *header = json_object();

	set_int(header, "cluster_id", 1);
	set_int(header, "revision", s.revision);
	set_int(header, "raft_term", 2);
	json_object_set_new(o, "header", header);
	return o;
}

/* grpc's codes */
enum { INVALID = 3, NOT_FOUND = 5, OUT_OF_RANGE = 11, UNAVAILABLE = 14 };

static json_t *refuse(int code, const char *text)
{
	return json_pack("{s:s, s:s, s:i}", "error", text, "message", text, "code", code);
}

/* ---- leases ---- */

static struct lease *find_lease(int64_t id)
{
	for (size_t i = 0; id && i < LEASES; i++)
		if (s.lease[i].id == id)
			return &s.lease[i];
	return NULL;
}

static void end_lease(struct lease *l)
{
	bool any = false;

	for (size_t i = s.n; i-- > 0;)
		any |= s.kv[i].lease == l->id;
	s.revision += any;
	for (size_t i = s.n; any && i-- > 0;)
		if (s.kv[i].lease == l->id) {
			sim_trace("etcd       < %.*s ends with its lease", (int)s.kv[i].key.n,
			    s.kv[i].key.at);
			delete_kv(i);
		}
	l->id = 0;
}

static void end_leases(void)
{
	for (size_t i = 0; i < LEASES; i++)
		if (s.lease[i].id && s.lease[i].ends <= sim_now)
			end_lease(&s.lease[i]);
}

static void renew(struct lease *l)
{
	int64_t span = l->ttl * SEC;

	if (s.early && sim_chance(10))
		span = span * (30 + sim_below(70)) / 100;
	else
		span += (int64_t)(sim_random() % (uint64_t)(s.late + 1));
	l->ends = sim_now + span;
}

static json_t *grant_lease(const json_t *request)
{
	int64_t ttl = member_int(request, "TTL");
	struct lease *l = s.lease;
	json_t *o = begin_reply();

	while (l->id)
		if (++l == s.lease + LEASES)
			sim_panic("more than %d leases", LEASES);
	*l = (struct lease){ .id = s.next_lease++, .ttl = ttl < 2 ? 2 : ttl };
	renew(l);
	set_int(o, "ID", l->id);
	set_int(o, "TTL", l->ttl);
	return o;
}

static json_t *keep_lease(const json_t *request)
{
	int64_t id = member_int(request, "ID");
	struct lease *l = find_lease(id);
	json_t *o = begin_reply();

	if (l)
		renew(l);
	set_int(o, "ID", id);
	set_int(o, "TTL", l ? l->ttl : 0);
	return json_pack("{s:o}", "result", o);
}

static json_t *revoke_lease(const json_t *request)
{
	struct lease *l = find_lease(member_int(request, "ID"));

	if (!l)
		return refuse(NOT_FOUND, "etcdserver: requested lease not found");
	end_lease(l);
	return begin_reply();
}

/* ---- ranges and transactions ---- */

/* The keys from `key` up to `range_end`, or that one key: [*first, *end). */
static void find_range(const json_t *o, size_t *first, size_t *end)
{
	struct text key = member_bytes(o, "key"), until = member_bytes(o, "range_end");

	*first = find_place(&key);
	if (until.n)
		*end = find_place(&until);
	else
		*end = *first + (find_kv(&key) != NULL);
	if (*end < *first)
		*end = *first;
	free(key.at);
	free(until.at);
}

static json_t *describe_kv(const struct kv *kv, bool keys_only)
{
	json_t *o = json_object();

	json_object_set_new(o, "key", bytes_value(&kv->key));
	if (!keys_only && kv->value.n)
		json_object_set_new(o, "value", bytes_value(&kv->value));
	set_int(o, "create_revision", kv->created);
	set_int(o, "mod_revision", kv->written);
	set_int(o, "version", kv->version);
	set_int(o, "lease", kv->lease);
	return o;
}

static json_t *read_range(const json_t *request)
{
	size_t first, end, most = (size_t)member_int(request, "limit");
	bool keys_only = json_is_true(json_object_get(request, "keys_only"));
	json_t *o = begin_reply(), *kvs = json_array();

	find_range(request, &first, &end);
	set_int(o, "count", (int64_t)(end - first));
	if (most && end - first > most) {
		end = first + most;
		json_object_set_new(o, "more", json_true());
	}
	for (size_t i = first; i < end; i++)
		json_array_append_new(kvs, describe_kv(&s.kv[i], keys_only));
	if (end > first)
		json_object_set(o, "kvs", kvs);
	json_decref(kvs);
	return o;
}

/* The client asks for two kinds of conditions, both for equality. */
static bool holds(const json_t *condition)
{
	const char *target = member_text(condition, "target");
	struct text key = member_bytes(condition, "key");
	const struct kv *kv = find_kv(&key);
	bool is;

	free(key.at);
	if (strcmp(member_text(condition, "result"), "EQUAL") != 0)
		sim_panic("etcd is asked for a condition that it does not know");
	if (strcmp(target, "CREATE") == 0)
		is = (kv ? kv->created : 0) == member_int(condition, "create_revision");
	else if (strcmp(target, "MOD") == 0)
		is = (kv ? kv->written : 0) == member_int(condition, "mod_revision");
	else
		sim_panic("etcd is asked for the target \"%s\"", target);
	return is;
}

static bool ends_with(const struct text *key, const char *name)
{
	size_t n = strlen(name);

	return key->n >= n && memcmp(key->at + key->n - n, name, n) == 0;
}

/* Tells the book of tenures of a key that a transaction has written or removed. */
static void note_change(const struct etcd_exchange *x, const struct text *key, bool put)
{
	char name[96];

	if (memmem(key->at, key->n, "/standby/", 9))
		return;
	if (ends_with(key, "/owner") && put) {
		tenures_take(x->pid, x->life, x->slot);
		tenures_begin(x->pid, x->life);
		return;
	}
	snprintf(name, sizeof name, "%.*s", (int)key->n, key->at);
	tenures_write(x->pid, x->life, name);
}

static void do_put(const struct etcd_exchange *x, const json_t *op)
{
	struct text key = member_bytes(op, "key");

	note_change(x, &key, true);
	put_kv(key, member_bytes(op, "value"), member_int(op, "lease"));
}

static void do_delete(const struct etcd_exchange *x, const json_t *op)
{
	size_t first, end;

	find_range(op, &first, &end);
	while (end > first) {
		note_change(x, &s.kv[first].key, false);
		delete_kv(first);
		end--;
	}
}

/* How many keys would the operations change? A put that others of the transaction touch, too, is refused. */
static const char *check_operations(const json_t *ops, size_t *changes)
{
	size_t i, k, first, end;
	const json_t *op, *other;

	*changes = 0;
	json_array_foreach(ops, i, op) {
		const json_t *put = json_object_get(op, "request_put");
		struct text key;
		bool twice = false;

		if (!put) {
			find_range(json_object_get(op, "request_delete_range"), &first, &end);
			*changes += end - first;
			continue;
		}
		++*changes;
		if (member_int(put, "lease") && !find_lease(member_int(put, "lease")))
			return "etcdserver: requested lease not found";
		key = member_bytes(put, "key");
		json_array_foreach(ops, k, other) {
			const json_t *o = json_object_get(other, "request_put");
			const json_t *d = json_object_get(other, "request_delete_range");
			struct text from = member_bytes(o ? o : d, "key"),
			            to = member_bytes(o ? o : d, "range_end");

			if (k != i && to.n)
				twice |= compare_text(&from, &key) <= 0 &&
				    compare_text(&key, &to) < 0;
			else if (k != i)
				twice |= compare_text(&from, &key) == 0;
			free(from.at);
			free(to.at);
		}
		free(key.at);
		if (twice)
			return "etcdserver: duplicate key given in txn request";
	}
	return NULL;
}

static json_t *run_transaction(const struct etcd_exchange *x, const json_t *request)
{
	const json_t *compare = json_object_get(request, "compare"),
	             *ops = json_object_get(request, "success"), *op;
	const char *wrong;
	bool succeeded = true;
	size_t i, changes;
	json_t *o;

	if (json_array_size(compare) > OPS_MOST || json_array_size(ops) > OPS_MOST)
		return refuse(INVALID, "etcdserver: too many operations in txn request");
	json_array_foreach(compare, i, op)
		succeeded &= holds(op);
	wrong = succeeded ? check_operations(ops, &changes) : NULL;
	if (wrong)
		return refuse(strstr(wrong, "lease") ? NOT_FOUND : INVALID, wrong);
	if (succeeded) {
		s.revision += changes != 0;
		json_array_foreach(ops, i, op) {
			const json_t *put = json_object_get(op, "request_put");

			if (put)
				do_put(x, put);
			else
				do_delete(x, json_object_get(op, "request_delete_range"));
		}
	}
	o = begin_reply();
	if (succeeded)
		json_object_set_new(o, "succeeded", json_true());
	return o;
}

static json_t *compact(const json_t *request)
{
	return member_int(request, "revision") > s.revision
	    ? refuse(OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")
	    : begin_reply();
}

static json_t *apply(const struct etcd_exchange *x)
{
	json_t *request = json_loads(x->body, 0, NULL), *reply;

	end_leases();
	if (strlen(x->body) / 4 * 3 > BYTES_MOST)
		reply = refuse(INVALID, "etcdserver: request is too large");
	else if (strcmp(x->method, "lease/grant") == 0)
		reply = grant_lease(request);
	else if (strcmp(x->method, "lease/keepalive") == 0)
		reply = keep_lease(request);
	else if (strcmp(x->method, "lease/revoke") == 0)
		reply = revoke_lease(request);
	else if (strcmp(x->method, "kv/range") == 0)
		reply = read_range(request);
	else if (strcmp(x->method, "kv/txn") == 0)
		reply = run_transaction(x, request);
	else if (strcmp(x->method, "kv/compaction") == 0)
		reply = compact(request);
	else
		sim_panic("etcd is asked for %s", x->method);
	json_decref(request);
	return reply;
}

/* ---- the way there and back ---- */

static int64_t draw_delay(void)
{
	return 100 * USEC + (int64_t)(sim_random() % (uint64_t)(s.slowest + 1));
}

static unsigned members_at_work(void)
{
	unsigned n = 0;

	for (int i = 0; i < MEMBERS; i++)
		n += !s.member[i].refuses && s.member[i].frozen_until <= sim_now;
	return n;
}

static void answer(void *ctx)
{
	struct etcd_exchange *x = ctx;

	if (s.cut[x->slot]) {
		event_at(sim_now + 20 * MSEC, answer, x);
		return;
	}
	if (!x->state) {
		x->state = ETCD_ANSWERED;
		waitq_wake_all(&x->wait);
	}
}

static void take_reply(struct etcd_exchange *x, json_t *reply)
{
	char *text = json_dumps(reply, JSON_COMPACT);

	x->reply = must(strdup(text));
	sim_trace("etcd       < %s of pid %d: %.160s", x->method, x->pid, x->reply);
	json_decref(reply);
	/* The text is of jansson, whose memory is that of the simulated processes. */
	sim_free(text);
}

static void repeat(void *ctx)
{
	struct etcd_exchange *x = ctx;

	sim_trace("etcd       ! %s of pid %d is repeated", x->method, x->pid);
	json_decref(apply(x));
}

/* A request is there, if its host reaches the member and the member is at work. */
static void arrive(void *ctx)
{
	struct etcd_exchange *x = ctx;
	const struct member_of_etcd *m = &s.member[x->member];
	bool stuck = s.cut[x->slot] || m->frozen_until > sim_now || s.leaderless_until > sim_now ||
	    members_at_work() < 2;

	/* One that is given up may arrive nevertheless. */
	if (x->given_up && x->lost)
		return;
	if (stuck) {
		event_at(sim_now + 20 * MSEC, arrive, x);
		return;
	}
	if (x->given_up)
		sim_trace("etcd       ! %s of pid %d is late", x->method, x->pid);
	take_reply(x, apply(x));
	if (sim_chance(s.repeats))
		event_at(sim_now + sim_below(sim_chance(50) ? 50 : 6000) * MSEC, repeat, x);
	if (!sim_chance(s.loses_answers))
		event_at(sim_now + draw_delay(), answer, x);
	else
		sim_trace("etcd       ! the answer is lost");
}

static void refuse_connection(void *ctx)
{
	struct etcd_exchange *x = ctx;

	if (x->state)
		return;
	x->state = ETCD_REFUSED;
	waitq_wake_all(&x->wait);
}

struct etcd_exchange *etcd_post(unsigned member, const char *method, const char *body)
{
	struct etcd_exchange *x = must(calloc(1, sizeof *x));

	x->pid = proc_current->pid;
	x->life = proc_current->life;
	x->slot = proc_current->slot;
	x->member = member % MEMBERS;
	snprintf(x->method, sizeof x->method, "%s", method);
	x->body = must(strdup(body));
	x->lost = sim_chance(50);
	x->next = s.all;
	s.all = x;
	if (s.member[x->member].refuses && !s.cut[x->slot])
		event_at(sim_now + draw_delay(), refuse_connection, x);
	else if (!sim_chance(s.loses_requests))
		event_at(sim_now + draw_delay(), arrive, x);
	return x;
}

void etcd_give_up(struct etcd_exchange *x)
{
	x->given_up = true;
}

/* ---- faults ---- */

void etcd_cut(unsigned slot, bool cut)
{
	s.cut[slot] = cut;
}

static void trouble_member(void *ctx)
{
	unsigned i = sim_chance(50) ? s.leader : sim_below(MEMBERS);
	int64_t span = (100 + sim_below(sim_chance(70) ? 2000 : 6000)) * MSEC;

	(void)ctx;
	if (scenario_is_peace() || !s.freezes)
		return;
	for (int k = 0; k < MEMBERS; k++)
		s.member[k].refuses &= s.member[k].frozen_until > sim_now;
	if (members_at_work() == MEMBERS || sim_chance(20)) {
		sim_trace("etcd       ! member %u stands still%s", i,
		    i == s.leader ? ", which leads" : "");
		s.member[i].frozen_until = sim_now + span;
		s.member[i].refuses = sim_chance(40);
		if (i == s.leader) {
			s.leaderless_until = sim_now + (800 + sim_below(1200)) * MSEC;
			s.leader = (i + 1) % MEMBERS;
			/* The new leader gives all leases their time again. */
			for (size_t k = 0; k < LEASES; k++)
				if (s.lease[k].id && s.lease[k].ends > sim_now)
					s.lease[k].ends = s.leaderless_until + s.lease[k].ttl * SEC;
		}
	}
	event_at(sim_now + (100 + sim_below(100)) * MSEC +
	        (int64_t)(sim_random() % (uint64_t)s.gap),
	    trouble_member, NULL);
}

void etcd_draw(void)
{
	s.any = true;
	s.slowest = sim_chance(80) ? 2 * MSEC : (int64_t)sim_below(400) * MSEC;
	s.late = sim_chance(70) ? 500 * MSEC : 2500 * MSEC;
	if (sim_chance(40))
		s.loses_answers = 1 + sim_below(15);
	if (sim_chance(40))
		s.loses_requests = 1 + sim_below(15);
	if (sim_chance(50))
		s.repeats = 1 + sim_below(30);
	s.freezes = sim_chance(50);
	s.early = sim_chance(15);
	s.gap = (int64_t)(500 + sim_below(5000)) * MSEC;
	if (s.early)
		tenures_may_end_early();
	sim_trace(
	    "judge      > etcd loses %u%% of requests and %u%% of answers, repeats %u%%, freezes %u, early %d",
	    s.loses_requests, s.loses_answers, s.repeats, s.freezes, s.early);
	event_at(sim_now + s.gap, trouble_member, NULL);
}

void etcd_heal(void)
{
	s.loses_requests = s.loses_answers = s.repeats = s.freezes = 0;
	s.early = false;
	s.slowest = 2 * MSEC;
	s.leaderless_until = 0;
	memset(s.member, 0, sizeof s.member);
	memset(s.cut, 0, sizeof s.cut);
}

void etcd_reset(void)
{
	while (s.all) {
		struct etcd_exchange *x = s.all;

		s.all = x->next;
		free(x->reply);
		free(x->body);
		free(x);
	}
	while (s.n)
		delete_kv(s.n - 1);
	free(s.kv);
	memset(&s, 0, sizeof s);
	s.revision = 1;
	s.next_lease = 7000;
}
