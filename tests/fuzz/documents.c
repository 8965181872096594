/* SPDX-License-Identifier: ISC */
#include "ckpt/names.h"
#include "coord/coord.h"
#include "core/fields.h"
#include "msg/answer.h"
#include "msg/cluster_status.h"
#include "msg/heartbeat.h"
#include "msg/manifest.h"
#include "msg/message.h"
#include "msg/run_result.h"
#include "msg/state.h"
#include "msg/view.h"
#include "tests/fuzz/coordinator.h"

/* Processes with valid keys send messages whose numbers are anywhere within the bounds of message.def. Every
 * document that the coordinator writes then must be readable again: state.json, a checkpoint's manifest,
 * the view, the status, the result, the line of metrics.jsonl, its answers and its messages.
 *
 * The bytes of the input are choices; those after its end follow from them (choose). */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MESSAGES 300u

struct choices {
	const uint8_t *at, *end;
	uint64_t random;
};

static uint32_t choose(struct choices *c, uint32_t below)
{
	c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407) +
	    (c->at < c->end ? *c->at++ : 0);
	return (uint32_t)(c->random >> 33) % below;
}

/* A number within the bounds, often one of them, or a small one. */
static int64_t choose_int(struct choices *c, int64_t least, int64_t most)
{
	uint64_t span = (uint64_t)most - (uint64_t)least, n = 0;

	switch (choose(c, 4)) {
	case 0:
		n = choose(c, 30);
		break;
	case 1:
		n = choose(c, 2) ? span : span - choose(c, 3);
		break;
	case 2:
		n = (uint64_t)choose(c, 1u << 30) << choose(c, 33);
		break;
	default:
		return least <= 1 && most >= 1 ? 1 : least;
	}
	return (int64_t)((uint64_t)least + (n <= span ? n : span));
}

static json_t *choose_text(struct choices *c, const char *key)
{
	static const char *const texts[] = { "", "h:1", "\xc3\xa9\"\\", "x", "/run/s" },
	                         *const states[] = { "taken", "late", "failed", "saved" };

	return json_string(strcmp(key, "state") == 0 ? states[choose(c, 4)] : texts[choose(c, 5)]);
}

/* ---- documents within messages ---- */

static json_t *choose_taken(struct choices *c)
{
	json_t *list = json_array();

	for (uint32_t i = choose(c, 3); i; i--)
		json_array_append_new(list,
		    json_pack("[iiiI]", (int)choose(c, 2), (int)choose(c, 3), 1,
		        (json_int_t)choose_int(c, 0, STEPS_MOST)));
	return list;
}

/* The figures of a heartbeat, which are not checked before they arrive: any numbers. */
static json_t *choose_figures(struct choices *c)
{
	static const char *const name[] = {
#define BEGIN(name)
#define INT(member, missing) #member,
#define INT_IF(member)       #member,
#define NUM(member)          #member,
#define NUM_IF(member)       #member,
#define TEXT(member, size)
#define RANKS(member)
#define DOC(member)
#define HIST(member)
#define END(name)
#include "msg/heartbeat.def"
	};
	json_t *figures = json_object();

	for (size_t i = 0; i < sizeof name / sizeof *name; i++)
		if (choose(c, 2))
			json_object_set_new(figures, name[i],
			    choose(c, 4) ? json_integer(choose_int(c, INT64_MIN, INT64_MAX))
			                 : json_real(1e300 * (double)choose(c, 9)));
	json_object_set_new(figures, "staleness",
	    json_pack("{s:[i], s:[I, I], s:f}", "le", 1, "counts",
	        (json_int_t)choose_int(c, 0, INT64_MAX), (json_int_t)choose_int(c, 0, INT64_MAX),
	        "sum", 1e300));
	json_object_set_new(figures, "refused", json_pack("[[i, f]]", (int)choose(c, 4), 1e300));
	json_object_set_new(figures, "tables",
	    json_pack("[{s:i, s:I, s:I}]", "id", 0, "rows", (json_int_t)choose_int(c, 0, INT64_MAX),
	        "widened", (json_int_t)choose_int(c, INT64_MIN, INT64_MAX)));
	return figures;
}

static json_t *choose_doc(struct choices *c, const char *key)
{
	json_t *list;

	if (strcmp(key, "tables") == 0)
		return json_pack("[{s:s, s:i, s:i}]", "name", "w", "rows", 5, "cols", 1);
	if (strcmp(key, "stats") == 0)
		return choose_figures(c);
	if (strcmp(key, "eval") == 0)
		return json_pack("{s:f, s:f}", "loss", (double)choose(c, 100), "auc", 0.5);
	if (strcmp(key, "cut") == 0)
		return json_pack("{s:I}", "worker-0",
		    (json_int_t)choose_int(c, INT64_MIN, INT64_MAX));
	if (strcmp(key, "taken") != 0)
		return choose(c, 2) ? json_pack("{s:s}", "about", "this") : NULL;
	if (choose(c, 2))
		return choose_taken(c);
	list = json_array();
	for (unsigned i = 0; i < 3; i++)
		json_array_append_new(list, choose_taken(c));
	return list;
}

/* ---- messages ---- */

/* A list of tuples, whose ids are mostly small. */
static json_t *choose_tuples(struct choices *c, const struct field *of)
{
	json_t *list = json_array();

	for (uint32_t i = choose(c, 3); i; i--) {
		json_t *tuple = json_array();

		for (const struct field *f = of; f->key; f++)
			json_array_append_new(tuple,
			    json_integer(f == of && choose(c, 8)
			            ? (json_int_t)choose(c, 6)
			            : choose_int(c, f->least, f->most)));
		json_array_append_new(list, tuple);
	}
	return list;
}

static json_t *choose_map(struct choices *c, const struct field *f)
{
	json_t *map = json_object();
	char key[32];

	for (uint32_t i = choose(c, 4); i; i--) {
		snprintf(key, sizeof key, "%u",
		    choose(c, 4) ? choose(c, 3) : choose(c, (uint32_t)f->longest));
		json_object_set_new(map, key, json_integer(choose_int(c, f->least, f->most)));
	}
	return map;
}

static json_t *choose_member(struct choices *c, const struct field *f)
{
	switch (f->type) {
	case FIELD_INT:
		return json_integer(choose_int(c, f->least, f->most));
	case FIELD_FLAG:
		return json_boolean(choose(c, 2));
	case FIELD_TEXT:
		return choose_text(c, f->key);
	case FIELD_TUPLES:
		return choose_tuples(c, f->of);
	case FIELD_MAP:
		return choose_map(c, f);
	case FIELD_DOC:
		return choose_doc(c, f->key);
	default:
		return NULL;
	}
}

/* Puts the number that the coordinator expects into most answers, and the sender's rank. */
static void aim(struct choices *c, const struct coordinator *f, unsigned who, unsigned kind,
    json_t *m)
{
	enum message_kind order = kind == MESSAGE_vote ? MESSAGE_propose
	    : kind == MESSAGE_settled                  ? MESSAGE_settle
	                                               : MESSAGE_snapshot;

	if (json_object_get(m, "id") && choose(c, 8))
		json_object_set_new(m, "id", json_integer(f->order[order]));
	if (json_object_get(m, "rank") && choose(c, 4))
		json_object_set_new(m, "rank", json_integer(who < 2 ? -1 : (int)who - 2));
	if (json_object_get(m, "index") && choose(c, 4))
		json_object_set_new(m, "index", json_integer((int)who));
	if (json_object_get(m, "rev") && choose(c, 4))
		json_object_set_new(m, "rev", json_integer((json_int_t)coord_rev(f->c)));
}

/* ---- what is written ---- */

/* No number in the document has wrapped. */
static void check_numbers(const json_t *v)
{
	const char *key;
	json_t *item;
	size_t i;

	must(!json_is_integer(v) || json_integer_value(v) >= -1);
	json_object_foreach((json_t *)(uintptr_t)v, key, item)
		check_numbers(item);
	json_array_foreach(v, i, item)
		check_numbers(item);
}

static void check_state(const struct coordinator *f)
{
	json_t *json = coordinator_state(f);
	struct err e = { 0 };
	struct coord *next;
	struct state state;

	must(!state_decode(json, &state, &e));
	if (coord_state_is_running(&state)) {
		next = coordinator_make((struct coordinator *)(uintptr_t)f);
		must(!coord_recover(next, &state, f->now, &e));
		coord_free(next);
	}
	state_release(&state);
	json_decref(json);
}

static void check_manifest(const struct coordinator *f)
{
	struct manifest_head head;
	struct manifest *m;
	struct err e = { 0 };
	json_t *json, *whole;

	if (coord_snap_state(f->c) == SNAP_NONE)
		return;
	json = passed_on(coord_snap_head(f->c));
	must(!manifest_head_decode(json, &head, &e));
	whole = passed_on(manifest_encode(&head,
	    &(struct manifest_body){ .step = coord_snap_step(f->c),
	        .created = "",
	        .digest_of_config = "" }));
	must(!manifest_decode(whole, &m, &e) && !ckpt_head_check(m, "it", &e));
	manifest_free(m);
	json_decref(whole);
	json_decref(json);
}

static void check_documents(const struct coordinator *f)
{
	json_t *view = passed_on(coord_view(f->c)), *status = passed_on(coord_status(f->c, f->now)),
	       *row = passed_on(coord_row(f->c, f->now)),
	       *result = passed_on(coord_result(f->c, f->now)), *tables = coord_tables(f->c);
	struct cluster_status *s = cluster_status_decode(status);
	struct cluster_progress progress;
	struct run_result r;
	const struct view *v;
	struct err e = { 0 };

	must(s && !view_decode(view, &v, &e) && !cluster_progress_decode(row, &progress, &e));
	run_result_decode(result, &r);
	must(r.state >= 0);
	check_numbers(status);
	check_numbers(row);
	check_numbers(result);
	check_numbers(tables);
	view_release(v);
	cluster_status_free(s);
	json_decref(view);
	json_decref(status);
	json_decref(row);
	json_decref(result);
	json_decref(tables);
	check_state(f);
	check_manifest(f);
}

static void check_answer(enum message_kind kind, const json_t *answer)
{
	struct answer_lease lease;
	struct err e = { 0 };

	if (!answer || answer_is_refusal(answer, &e))
		return;
	if (kind == MESSAGE_lease) {
		must(!answer_decode_lease(answer, &lease, &e));
		answer_release_lease(&lease);
	}
}

/* ---- the script ---- */

static void hear(struct coordinator *f, unsigned who, json_t *m)
{
	struct message decoded;
	struct err e = { 0 };
	json_t *answer;

	must(!message_decode(m, speaker_role(who), &decoded, &e));
	answer = coord_handle(f->c, &f->self[who], &decoded, f->now, &e);
	if (answer)
		answer = passed_on(answer);
	check_answer(decoded.kind, answer);
	json_decref(answer);
	json_decref(m);
}

static void say_something(struct choices *c, struct coordinator *f)
{
	static const enum message_kind answers[] = { MESSAGE_vote, MESSAGE_snap, MESSAGE_settled };
	unsigned who = choose(c, SPEAKERS), kind = choose(c, MESSAGE_KINDS);
	json_t *m;

	/* Leases, and what servers say about steps, are what the state is made of. */
	if (choose(c, 2) == 0)
		kind = who < 2 ? answers[choose(c, 3)] : MESSAGE_lease;
	/* After these nothing more happens. */
	if ((kind == MESSAGE_fail || kind == MESSAGE_done) && choose(c, 12))
		return;
	if (!message_may_send(speaker_role(who), kind) || kind == MESSAGE_trace ||
	    kind == MESSAGE_watch)
		return;
	m = json_pack("{s:s}", "op", message_op(kind));
	for (const struct field *field = message_fields(kind); field->key; field++) {
		json_t *v = choose_member(c, field);

		if (v)
			json_object_set_new(m, field->key, v);
	}
	aim(c, f, who, kind, m);
	hear(f, who, m);
}

/* Time passes. Most servers and workers have been heard meanwhile; the others may be lost. */
static void pass_time(struct choices *c, struct coordinator *f)
{
	f->now += (int64_t)choose(c, 60) * 100 * NSEC_PER_MSEC;
	for (unsigned i = 0; i < 5; i++)
		if (choose(c, i < 2 ? 40 : 3))
			hear(f, i, MESSAGE(beat));
	coord_tick(f->c, f->now);
}

static void act(struct choices *c, struct coordinator *f)
{
	switch (choose(c, 30)) {
	case 0:
		pass_time(c, f);
		break;
	case 1:
		coord_session_gone(f->c, &f->self[choose(c, SPEAKERS)], f->now);
		break;
	case 2:
	case 3:
		coord_snap_begin(f->c, (uint64_t)choose_int(c, 0, STEPS_MOST), f->now);
		break;
	case 4:
		if (coord_snap_state(f->c) == SNAP_TAKEN)
			coord_snap_write(f->c, "/d", f->now);
		break;
	default:
		f->now += NSEC_PER_MSEC;
		say_something(c, f);
	}
}

/* All servers and workers join, and the servers take up the layout. */
static void begin_job(struct choices *c, struct coordinator *f)
{
	int64_t examples = choose_int(c, 1, MESSAGE_MOST), lease = choose(c, 2);
	bool stream = choose(c, 2);

	for (unsigned i = 0; i < 2; i++)
		hear(f, i,
		    MESSAGE(server_join, .index = i, .host = "h", .tcp = "h:1", .unix_path = "/u"));
	for (unsigned i = 2; i < 5; i++) {
		json_t *tables = choose_doc(c, "tables");

		hear(f, i,
		    MESSAGE(worker_join, .rank = -1, .examples = examples, .lease = lease,
		        .stream = stream, .host = "h", .tables = tables));
		json_decref(tables);
	}
	for (unsigned i = 0; i < 2; i++)
		hear(f, i, MESSAGE(ack, .rev = (int64_t)coord_rev(f->c)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct choices c = { data, data + n, n };
	struct coordinator *f = coordinator_begin(n && data[0] % 4 == 0);

	if (choose(&c, 8))
		begin_job(&c, f);
	for (unsigned i = 0; i < MESSAGES; i++) {
		act(&c, f);
		check_documents(f);
	}
	coordinator_end(f);
	return 0;
}
