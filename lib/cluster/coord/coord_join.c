/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "aggregate/aggregate.h"
#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/num.h"
#include "msg/answer.h"

/* Silent workers that are named to a worker that finds no free rank. */
#define SILENT_NAMED 8u
/* How much longer than the first server the others may take to find a coordinator that has taken over;
 * a server that is silent for server_lost after that is lost. */
#define OTHERS_RETURN (500 * NSEC_PER_MSEC)

/* ---- servers ---- */

/* Choose the number of a joining server: the one that it asks for, or the last one of this key, or
 * one that was never used, or the number of a lost server, or of a released one, whose process may
 * not know yet that it may leave. -1: there is none. */
static int choose_server_number(const struct coord *c, const char *key, int64_t wanted)
{
	int empty = -1, lost = -1, released = -1;

	if (wanted >= 0)
		return wanted < (int64_t)c->nservers && !c->server[wanted].live ? (int)wanted : -1;
	for (unsigned i = c->nservers; i-- > 0;) {
		const struct coord_member_server *s = &c->server[i];

		if (s->live)
			continue;
		if (s->ever && strcmp(s->key, key) == 0)
			return (int)i;
		if (s->ever)
			lost = (int)i;
		else if (s->released)
			released = (int)i;
		else
			empty = (int)i;
	}
	return empty >= 0 ? empty : lost >= 0 ? lost : released;
}

/* The first server of the saved state is back after a coordinator has taken over. The others look for it
 * as often, so they do not need the time that coord_recover has given them. */
static void note_return(struct coord *c, int64_t now)
{
	bool first = c->cfg.took_over && !c->hearing.returned;

	c->hearing.returned = true;
	for (unsigned i = 0; first && i < c->nservers; i++)
		if (c->server[i].seen > now + OTHERS_RETURN)
			c->server[i].seen = now + OTHERS_RETURN;
}

/* Reattach a server, which is live or was released, and repeat the messages that may be lost with
 * its earlier session. NULL: there is no such server. */
static json_t *rejoin_server(struct coord *c, struct coord_self *self, int64_t now)
{
	for (unsigned i = 0; i < c->nservers; i++) {
		struct coord_member_server *s = &c->server[i];

		if ((!s->live && !s->released) || s->incarnation != self->incarnation ||
		    strcmp(s->key, self->key) != 0)
			continue;
		self->kind = COORD_SERVER;
		self->index = i;
		note_return(c, now);
		s->seen = now;
		s->gone_at = 0;
		s->awaited = false;
		if (s->released) {
			coord_scale_permit_leave(c, i);
		} else {
			coord_change_ask_again(c, i);
			coord_snap_order_again(c, i);
		}
		return ANSWER(server_join, .index = i);
	}
	return NULL;
}

/* Reattach a server or worker that has lost only its session. Returns the answer, or NULL when the
 * peer is new. */
static json_t *rejoin_session(struct coord *c, struct coord_self *self, int64_t now)
{
	json_t *back = rejoin_server(c, self, now);

	if (back)
		return back;
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].incarnation == self->incarnation &&
		    strcmp(c->worker[i].key, self->key) == 0 &&
		    !coord_worker_is_dismissed(&c->worker[i])) {
			self->kind = COORD_WORKER;
			self->index = i;
			c->worker[i].seen = now;
			c->worker[i].gone_at = 0;
			return ANSWER(worker_join, .rank = i);
		}
	return NULL;
}

/* Does the peer come from a layout epoch that this coordinator does not know? Then its partitions
 * and its step belong to an older run, and it must start afresh. */
static bool is_from_unknown_epoch(const struct coord *c, int64_t epoch, struct err *e)
{
	if (!epoch || (c->placed && epoch <= c->layout.epoch))
		return false;
	err_set(e, ERR_FENCED,
	    "the coordinator has lost its state and does not know layout epoch %lld; restart "
	    "this process",
	    (long long)epoch);
	return true;
}

/* A process of the same key asks for the number of a living server, or for any number of a cluster
 * that is whole, while that server has no session: the old process was restarted before its silence
 * was noticed, by this coordinator or by the one before it. */
static void drop_replaced_server(struct coord *c, const struct coord_self *self, int64_t wanted,
    int64_t now)
{
	for (unsigned i = 0; i < c->nservers; i++) {
		const struct coord_member_server *s = &c->server[i];
		bool replaced = wanted == (int64_t)i ||
		    (wanted < 0 && (s->gone_at || s->awaited) &&
		        choose_server_number(c, self->key, -1) < 0);

		if (s->live && replaced && strcmp(s->key, self->key) == 0) {
			coord_place_server_lost(c, i, "it was restarted", now);
			return;
		}
	}
}

/* Makes room for one more server, if the configuration permits a number above the present one. */
static bool add_server(struct coord *c, int64_t now)
{
	struct err ignored;

	return c->cfg.servers < c->cfg.servers_max &&
	    coord_scale(c, (int64_t)c->cfg.servers + 1, -1, now, &ignored) == ERR_OK;
}

/* A server that cannot keep rows on its disk would end when it makes its first table. So it does not join a
 * cluster that asks for that. */
static bool lacks_rows_on_disk(const struct coord *c, const struct message_server_join *m,
    struct err *e)
{
	if (!conf_is_named(c->conf->spill_dir) || m->spills)
		return false;
	err_set(e, ERR_CONFIG,
	    "spill_dir: the server from %s cannot keep rows on its disk, because it has no RocksDB; install the "
	    "Debian package " CONF_SPILL_PACKAGE " there",
	    *m->host ? m->host : "an unknown host");
	return true;
}

json_t *coord_on_server_join(struct coord *c, const struct coord_request *r)
{
	const struct message_server_join *m = &r->m->server_join;
	struct coord_self *self = r->self;
	int64_t now = r->now;
	struct err *e = r->e;
	json_t *back = rejoin_session(c, self, now);
	struct coord_member_server *s;
	int at;

	if (back || is_from_unknown_epoch(c, m->epoch, e) || lacks_rows_on_disk(c, m, e))
		return back;
	drop_replaced_server(c, self, m->index, now);
	at = choose_server_number(c, self->key, m->index);
	if (at < 0 && m->index < 0 && add_server(c, now))
		at = choose_server_number(c, self->key, m->index);
	if (at < 0) {
		err_because(e, ERR_NOTREADY, CAUSE_CLUSTER_FULL,
		    "the cluster already has its %u server%s", c->nservers, NUM_S(c->nservers));
		return NULL;
	}
	if (c->phase > PHASE_DONE || c->ended || c->data_lost) {
		err_set(e, ERR_NOTREADY, "the job is %s: no server can join any more",
		    coord_phase_name(c->phase));
		return NULL;
	}
	s = &c->server[at];
	s->live = s->ever = true;
	s->leaving = s->requested = s->released = false;
	c->balance.wanted |= c->placed;
	/* A process that was only taken for lost does not check its sessions again. */
	if (s->incarnation != self->incarnation)
		s->keys_made = 0;
	s->incarnation = self->incarnation;
	s->seen = now;
	s->gone_at = 0;
	s->awaited = false;
	s->acked = 0;
	s->checked_of = 0;
	s->own = false;
	s->no_replicas_until = s->no_replicas_for = 0;
	json_decref(s->stats);
	s->stats = NULL;
	heartbeat_server_decode(NULL, &s->figures);
	s->pid = m->pid;
	snprintf(s->name, sizeof s->name, "server-%d", at);
	snprintf(s->key, sizeof s->key, "%s", self->key);
	snprintf(s->host, sizeof s->host, "%s", m->host);
	snprintf(s->tcp, sizeof s->tcp, "%s", m->tcp);
	snprintf(s->unix_path, sizeof s->unix_path, "%s", m->unix_path);
	snprintf(s->zone, sizeof s->zone, "%s", m->zone);
	coord_place_number_zones(c);
	self->kind = COORD_SERVER;
	self->index = (unsigned)at;
	coord_change_server_joined(c, (unsigned)at);
	coord_event(c, EVENT_server_joined, "server-%d joined from %s (pid %lld)", at, s->host,
	    (long long)s->pid);
	coord_changed(c);
	return ANSWER(server_join, .index = at);
}

bool coord_is_server(const struct coord *c, unsigned index, const char *key, uint64_t incarnation)
{
	for (unsigned i = 0; i < c->nservers; i++)
		if ((index == i || index == COORD_ANY_SERVER) && c->server[i].live &&
		    c->server[i].incarnation == incarnation && strcmp(c->server[i].key, key) == 0)
			return true;
	return false;
}

/* ---- tables ---- */

enum err_code coord_table_fits_job(const struct coord *c, struct table *shape, struct err *e)
{
	struct conf_rule rule;
	enum err_code rc = conf_server_rule(c->conf, &rule, e);
	const struct optim_rule *its = rc ? NULL : conf_rule_of_table(&rule, shape->name).rule;

	if (rc)
		return rc;
	shape->whole = its->whole_tables && !shape->sparse;
	if (shape->whole && table_elements(shape) > WHOLE_ELEMENTS)
		return err_set(e, ERR_CONFIG,
		    "job.optimizer: table \"%s\" has %llu values, and %s acts on tables of at most %u; give it "
		    "another rule by job.rules",
		    shape->name, (unsigned long long)table_elements(shape), its->name,
		    WHOLE_ELEMENTS);
	if (shape->sparse && aggregate_setting_compares(c->conf->robust))
		return err_set(e, ERR_CONFIG,
		    "robust: table \"%s\" is sparse: workers that push nothing to a row would outvote those that do; "
		    "must be none",
		    shape->name);
	return ERR_OK;
}

enum err_code coord_rules_fit_tables(const struct layout *l, const struct conf *conf, struct err *e)
{
	struct conf_rule rule;
	enum err_code rc = conf_server_rule(conf, &rule, e);

	for (size_t i = 0; !rc && i < l->ntables; i++) {
		const struct table *t = &l->table[i];
		const struct optim_rule *its = conf_rule_of_table(&rule, t->name).rule;

		if (its->whole_tables && !t->sparse && !t->dropped && t->nparts > 1)
			rc = err_set(e, ERR_CONFIG,
			    "job.optimizer: table \"%s\" is divided into %u partitions, and %s acts on whole "
			    "tables; begin a new job with it, or give the table another rule by job.rules",
			    t->name, t->nparts, its->name);
	}
	return rc;
}

static enum err_code add_job_tables(struct coord *c, const json_t *tables, struct err *e)
{
	const json_t *item;
	size_t i, before = c->layout.ntables;
	enum err_code rc;

	json_array_foreach(tables, i, item) {
		struct table shape, *t;

		rc = table_from_json(item, &shape, e);
		if (rc)
			return rc;
		rc = coord_table_fits_job(c, &shape, e);
		if (!rc && shape.sparse)
			rc = row_policy_parse(c->conf->sparse, &shape.policy, e);
		if (rc)
			return rc;
		if (c->placed && c->cfg.has_job && !layout_find(&c->layout, shape.name))
			return err_set(e, ERR_CONFIG,
			    "the model of the running job has no table \"%s\"", shape.name);
		coord_resume_fit_table(c, &shape);
		rc = layout_add(&c->layout, &shape, &t, e);
		if (rc)
			return rc;
	}
	rc = coord_rules_fit_tables(&c->layout, c->conf, e);
	if (rc)
		return rc;
	if (c->placed && c->layout.ntables > before) {
		coord_place_tables(c);
		c->layout.epoch++;
		coord_changed(c);
	}
	return ERR_OK;
}

json_t *coord_on_table(struct coord *c, const struct coord_request *r)
{
	json_t *answer;

	if (r->self->kind != COORD_ADMIN)
		err_set(r->e, ERR_FORBIDDEN, "this session may not send \"table\"");
	else if (!coord_resume_is_checked(c))
		err_set(r->e, ERR_NOTREADY,
		    "the checkpoint is being verified: try again once the cluster is running");
	if (r->self->kind != COORD_ADMIN || !coord_resume_is_checked(c) ||
	    add_job_tables(c, r->m->table.tables, r->e))
		return NULL;
	answer = ANSWER(table, .rev = (int64_t)c->rev);
	coord_progress(c, r->now);
	return answer;
}

/* ---- workers ---- */

static bool rank_is_open(const struct coord_member_worker *w)
{
	return w->state == WORKER_EMPTY || w->state == WORKER_LOST || w->state == WORKER_LEFT ||
	    w->lost_at;
}

/* The rank that the worker asks for, or the first open one; -1 with an error if it cannot join. */
static int choose_worker_rank(struct coord *c, const struct coord_self *self, int64_t wanted,
    struct err *e)
{
	if (wanted >= (int64_t)c->nworkers) {
		err_set(e, ERR_CONFIG, "rank %lld is out of range: the job has %u worker%s",
		    (long long)wanted, c->nworkers, c->nworkers == 1 ? "" : "s");
		return -1;
	}
	if (wanted >= 0) {
		const struct coord_member_worker *w = &c->worker[wanted];

		if (rank_is_open(w) || strcmp(w->key, self->key) == 0)
			return (int)wanted;
		err_set(e, ERR_EXISTS,
		    "rank %lld belongs to %s (%s, pid %lld), which has another key",
		    (long long)wanted, w->name, w->host, (long long)w->pid);
		return -1;
	}
	for (unsigned i = 0; i < c->nworkers; i++)
		if (rank_is_open(&c->worker[i]))
			return (int)i;
	err_set(e, ERR_LIMIT,
	    c->nworkers == 1 ? "the only worker rank is taken" : "all %u worker ranks are taken",
	    c->nworkers);
	return -1;
}

/* May the worker have died, although its lease has not expired? Its session broke, or it has missed
 * some heartbeats. */
static bool is_silent(const struct coord *c, const struct coord_member_worker *w, int64_t now)
{
	return (w->state == WORKER_JOINING || w->state == WORKER_ACTIVE) && !w->lost_at &&
	    (w->gone_at || now - w->seen > c->cfg.lease / 2);
}

/* Writes which silent workers hold the rank that a joining worker wants, or ranks if it wants any.
 * False: it is refused for another reason. */
static bool describe_held_ranks(const struct coord *c, int64_t wanted, int64_t now, char *out,
    size_t size)
{
	struct buf names = BUF_INIT;
	int64_t heard = INT64_MAX;
	unsigned n = 0;

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];

		if ((wanted >= 0 && wanted != i) || !is_silent(c, w, now))
			continue;
		names_put(&names, &n, SILENT_NAMED, w->name);
		heard = w->seen < heard ? w->seen : heard;
	}
	names_put_rest(&names, n, SILENT_NAMED);
	if (n)
		snprintf(out, size,
		    "%u of %u rank%s %s held by %s whose lease ends soon, silent for %.1f s: %s", n,
		    c->nworkers, NUM_S(c->nworkers), n == 1 ? "is" : "are",
		    n == 1 ? "a worker" : "workers", (double)(now - heard) / (double)NSEC_PER_SEC,
		    (char *)names.data);
	buf_release(&names);
	return n > 0;
}

static enum err_code check_worker_join(struct coord *c, const struct message_worker_join *m,
    struct err *e)
{
	uint64_t examples = (uint64_t)m->examples;

	if (!c->cfg.has_job)
		return err_set(e, ERR_NOTREADY,
		    "this cluster does not train: its file has no \"job\", or sets read_only");
	if (c->phase > PHASE_RUNNING)
		return err_set(e, ERR_NOTREADY, "the job is %s%s%s", coord_phase_name(c->phase),
		    c->end.text[0] ? ": " : "", c->end.text);
	if (examples == 0)
		return err_set(e, ERR_CONFIG, "a worker without training data cannot join");
	if (c->data.examples && c->data.examples == examples &&
	    c->data.blocks_per_lease != (uint64_t)m->lease && !c->data.leases)
		return err_because(e, ERR_CONFIG, CAUSE_DATA_MEMORY,
		    "this worker reads the data in other blocks than the other workers: "
		    "job.data_memory must be the same on all hosts");
	if (c->data.examples && m->stream != c->data.stream)
		return err_because(e, ERR_CONFIG, CAUSE_OTHER_DATA,
		    "%s: all workers must read the same data",
		    m->stream ? "this worker reads a stream, but the other workers do not"
		              : "the other workers read a stream, but this one does not");
	/* A topic may get more partitions while the job runs. */
	if (c->data.examples && m->stream && examples > c->data.examples)
		return add_job_tables(c, m->tables, e);
	if (c->data.examples && c->data.examples != examples)
		return err_because(e, ERR_CONFIG, CAUSE_OTHER_DATA,
		    "this worker's data has %llu examples, but the others' has %llu: all workers "
		    "must read the same data",
		    (unsigned long long)examples, (unsigned long long)c->data.examples);
	return add_job_tables(c, m->tables, e);
}

/* Stores what the worker says about the training data, with which the others agree. */
static void store_data(struct coord *c, const struct message_worker_join *m)
{
	c->data.examples = (uint64_t)m->examples;
	c->data.blocks_per_lease = (uint64_t)m->lease;
	c->data.stream = m->stream;
	coord_job_choose_epochs(c);
	if (c->data.leases)
		leases_extend(c->data.leases, c->data.examples);
	c->cannot_run.text[0] = 0;
	if (!c->data.job[0])
		snprintf(c->data.job, sizeof c->data.job, "%s", m->job);
	coord_description_store(c, m->facts);
}

/* Begins a new incarnation of the rank: the process that sent the request. Its state is
 * WORKER_JOINING. */
static void begin_incarnation(struct coord *c, unsigned rank, const struct coord_request *r)
{
	const struct message_worker_join *m = &r->m->worker_join;
	struct coord_member_worker *w = &c->worker[rank];

	w->incarnation = r->self->incarnation;
	w->seen = r->now;
	w->lost_at = w->gone_at = 0;
	w->evaluates = m->evaluates;
	w->returns = m->returns;
	w->pid = m->pid;
	w->state = WORKER_JOINING;
	w->leave_requested = w->requested = w->gave_up = false;
	free(w->cannot_run_reason);
	free(w->joining_host);
	free(w->ended);
	w->cannot_run_reason = w->joining_host = w->ended = NULL;
	heartbeat_probe_release(&w->probe);
	/* The figures of the rank's previous process do not apply to this one. */
	json_decref(w->stats);
	w->stats = NULL;
	heartbeat_worker_decode(NULL, &w->figures);
	w->window = (struct straggler_window){ 0 };
	w->layout_epoch = 0;
	snprintf(w->name, sizeof w->name, "worker-%u", rank);
	snprintf(w->key, sizeof w->key, "%s", r->self->key);
	snprintf(w->key_name, sizeof w->key_name, "%s", r->self->name);
	coord_watch_joined(c, rank);
	snprintf(w->host, sizeof w->host, "%s", m->host);
	snprintf(w->zone, sizeof w->zone, "%s", m->zone);
	coord_ring_join(w, m->ring);
	coord_relay_choose(c, rank);
}

json_t *coord_on_worker_join(struct coord *c, const struct coord_request *r)
{
	const struct message_worker_join *m = &r->m->worker_join;
	json_t *back = rejoin_session(c, r->self, r->now);
	const struct coord_member_worker *w;
	char held[600], memory[COORD_MEMORY_NOTE] = "";
	unsigned rank;
	bool member;
	int chosen;

	if (back)
		return back;
	/* Its data were read by the description of a checkpoint that may turn out to be damaged.
	 * Only a worker that had joined an earlier coordinator comes so early: others have no view
	 * yet that they use. */
	if (!coord_resume_is_checked(c)) {
		static const struct answer_held checking = { "the checkpoint is being verified" };

		if (m->waits)
			return ANSWER(rank_held, .held = &checking);
		err_set(r->e, ERR_CLOSED, "%s", checking.text);
		return NULL;
	}
	if (is_from_unknown_epoch(c, m->epoch, r->e) || check_worker_join(c, m, r->e))
		return NULL;
	if (!coord_description_is_here(c, m->facts)) {
		static const struct answer_held lacks = {
			"the coordinator does not have the description of this worker's data"
		};

		if (m->waits)
			return ANSWER(undescribed, .undescribed = &lacks);
		err_set(r->e, ERR_NOTREADY, "%s: start the worker again", lacks.text);
		return NULL;
	}
	chosen = choose_worker_rank(c, r->self, m->rank, r->e);
	if (chosen < 0 && m->waits && describe_held_ranks(c, m->rank, r->now, held, sizeof held)) {
		*r->e = (struct err){ 0 };
		return ANSWER(rank_held, .held = &(struct answer_held){ .text = held });
	}
	if (chosen < 0)
		return NULL;
	rank = (unsigned)chosen;
	w = &c->worker[rank];
	store_data(c, m);
	/* The rank is a member, and no LEAVE of it has been decided: its step is open, and the data
	 * of that step is dealt to it. */
	member = c->membership.n && coord_members_have(c, rank) &&
	    (w->state == WORKER_ACTIVE || w->state == WORKER_JOINING);
	/* The process before it has ended, and was not missed yet. */
	if (!w->lost_at && (w->state == WORKER_ACTIVE || w->state == WORKER_JOINING))
		coord_memory_was_short(w->about, memory);
	begin_incarnation(c, rank, r);
	r->self->kind = COORD_WORKER;
	r->self->index = rank;
	coord_event(c, EVENT_worker_joined, "worker-%u joined from %s (pid %lld)%s%s", rank,
	    w->host, (long long)w->pid, *memory ? " in place of another process" : "", memory);
	/* Before the job runs there is nothing to vote on: it runs when the servers have
	 * acknowledged the view that shows this worker, and no step has begun until then. */
	if (c->phase == PHASE_FORMING && c->placed)
		coord_members_add_first(c, rank);
	else if (c->phase == PHASE_RUNNING)
		coord_change_request(c,
		    member && c->cfg.deterministic ? CHANGE_RESUME : CHANGE_JOIN, rank,
		    WORKER_ACTIVE);
	coord_changed(c);
	return ANSWER(worker_join, .rank = rank);
}
