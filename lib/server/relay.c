
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "client/tracer.h"
#include "server/given.h"
#include "server/quota.h"
#include "server/uplink.h"

/* This process as a relay: a shard of all partitions that makes no updates, and the
 * uplink behind it. */

static enum err_code make_shard(struct server *s, const json_t *view, struct err *e)
{
	struct shard_config cfg = { .relay = true, .wake = lanes_wake, .forward = uplink_forward, .ctx = s };
	struct shard *shard;
	struct conf conf;
	enum err_code rc = conf_from_json(json_object_get(view, "config"), &conf, e);

	if (rc)
		return rc;
	agent_set_pace(s->agent, conf.heartbeat, conf.deadline);
	server_know_sessions(s, &conf);
	cfg.mode = conf.sync;
	cfg.mem_limit = conf.mem_limit;
	/* The rule makes no update here; it is one without state. */
	cfg.rule = optim_find("sgd");
	rc = server_choose_suites(s, conf.suite, e);
	if (!rc)
		rc = shard_new(&cfg, &shard, e);
	if (!rc)
		atomic_store(&s->shard, shard);
	conf_release(&conf);
	return rc;
}

/* It has been asked to leave, and nobody goes through it any more. */
static bool has_left(struct server *s, const json_t *view)
{
	return atomic_load(&s->leaving) &&
	    !json_flag(json_array_get(json_object_get(view, "relays"), s->relay), "live");
}

/* Every partition is here. */
static void all_here(struct layout *l)
{
	for (size_t t = 0; t < l->ntables; t++) {
		struct table *x = &l->table[t];

		if (!x->nruns)
			continue;
		x->nruns = 1;
		x->run[0] = (struct run){ .first = 0, .count = x->nparts, .nchain = 1, .joining = NO_SERVER, .leaving = NO_SERVER };
	}
}

/* The workers that come through here, or all others: those are done without, and not
 * waited for. */
static void take_workers(struct server *s, const json_t *workers, bool ours)
{
	struct member *m = mem_array(json_array_size(workers) + 1, sizeof *m);
	const json_t *w;
	size_t i, n = 0;

	json_array_foreach(workers, i, w) {
		const char *state = json_str(w, "state", "");

		if (given_ours(s, w, (int)s->relay) != ours || (ours && strcmp(state, "joining") == 0 && !json_flag(w, "first")))
			continue;
		m[n++] = (struct member){ .slot = (uint32_t)i,
			.state = !ours ? MEMBER_GONE : strcmp(state, "done") == 0 ? MEMBER_DONE : MEMBER_ACTIVE,
			.incarnation = json_u64s(w, "incarnation", 0), .at = ours ? (uint64_t)json_int(w, "from", 0) : 0 };
		if (!ours)
			uplink_forget(s->uplink, (uint32_t)i);
	}
	shard_take_members(atomic_load(&s->shard), m, n);
	free(m);
}

static enum err_code take_view(struct server *s, const json_t *view, struct err *e)
{
	enum err_code rc = atomic_load(&s->shard) ? ERR_OK : make_shard(s, view, e);
	struct layout layout;

	if (!rc)
		rc = layout_from_json(json_object_get(view, "layout"), &layout, e);
	if (rc)
		return rc;
	store_take_keys(s, view);
	quota_know(s, json_object_get(view, "now"));
	all_here(&layout);
	server_know_tables(s, &layout);
	if (layout.epoch != atomic_load(&s->epoch))
		rc = shard_install(atomic_load(&s->shard), &layout, NULL, e);
	/* Whoever goes by the epoch goes by this. */
	given_take(s, view, (int)s->relay);
	/* No step is asked for in this epoch before one that somebody is at; who has gone another
	 * way hears that from the epoch. */
	take_workers(s, json_object_get(view, "workers"), true);
	atomic_store(&s->epoch, layout.epoch);
	atomic_store(&s->generation, layout.generation);
	layout_release(&layout);
	if (rc)
		return rc;
	take_workers(s, json_object_get(view, "workers"), false);
	uplink_view(s->uplink, view, s->relay);
	lanes_wake(s);
	return ERR_OK;
}

static void on_view(void *ctx, const json_t *view)
{
	struct server *s = ctx;
	const char *phase = json_str(view, "phase", "");
	struct err e = { 0 };

	tracer_view(s->tracer, s->agent, view);
	if (json_flag(view, "ended") || strcmp(phase, "done") == 0 || strcmp(phase, "failed") == 0 || strcmp(phase, "stopped") == 0 ||
	    has_left(s, view))
		server_end(s, NULL);
	else if (take_view(s, view, &e))
		server_end(s, &e);
}

static void on_joined(void *ctx, const json_t *answer)
{
	struct server *s = ctx;

	s->relay = (unsigned)json_int(answer, "relay", 0);
	log_info(s->cfg.log, "joined as relay-%u for zone %s, data plane on %s", s->relay, s->cfg.zone, s->address);
}

static void on_lost(void *ctx, const struct err *why)
{
	server_end(ctx, why);
}

enum err_code relay_start(struct server *s, struct err *e)
{
	struct agent_config cfg = { .heartbeat = 200 * NSEC_PER_MSEC, .deadline = 60 * NSEC_PER_SEC, .joined = on_joined,
		.view = on_view, .lost = on_lost };
	enum err_code rc = uplink_start(s, e);

	return rc ? rc : server_join(s, &cfg, e);
}

void relay_stop(struct server *s)
{
	if (!s->uplink)
		return;
	uplink_stop(s->uplink);
	agent_stop(s->agent);
	s->agent = NULL;
}
