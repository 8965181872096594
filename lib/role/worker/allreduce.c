/* SPDX-License-Identifier: ISC */
#include "worker/allreduce.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/keys.h"
#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "math/vec.h"
#include "rundir/rundir.h"
#include "socket/listen_address.h"

/* A member of the ring. */
struct seat {
	struct ring_member who;
	uint64_t from; /* first step that it takes part in */
};

/* The mean of a step as one flat vector, in memory of the ring that stays valid until the mean of
 * the step after the next is made. mean NULL: no worker had examples. */
struct held {
	bool any;
	uint64_t step;
	uint32_t examples; /* of all workers */
	const float *mean;
};

struct allreduce {
	struct allreduce_config cfg;
	struct ring *ring;
	struct client *client;
	struct params *p;
	struct conf_rule rule;
	uint32_t rank;
	char local[NET_TEXT], tcp[NET_TEXT];

	struct seat *seat; /* members, ascending by position */
	size_t nseats;
	uint32_t gone;   /* how many members have left so far */
	uint32_t formed; /* ring epoch of the connected ring; 0: none */
	uint64_t at;     /* the step that is being reduced */
	bool ended;      /* cfg.attend has returned true */
	/* meeting: allreduce_await_members waits. answering: allreduce_answer_peers runs */
	bool meeting, answering;

	bool begun;          /* the parameters have been pulled */
	float **state;       /* by table: the rule's vectors, one after the other */
	uint64_t **version;  /* by table and partition: number of updates */
	size_t nparts;       /* partitions of all reduced tables */
	struct held last;    /* mean that not all workers are known to have */
	struct held going;   /* mean that not all servers are known to have */
	uint32_t going_gone; /* `gone` when the senders of `going` were chosen */
	bool *sent;          /* by partition of all tables: this worker has sent it */
};

bool allreduce_is_used(const struct job *job)
{
	bool dense = false;

	for (size_t i = 0; i < job->ntables; i++)
		dense |= !job->table[i].sparse;
	return dense && strcmp(job->conf.via, "allreduce") == 0;
}

/* ---- life ---- */

/* The ring epoch at this step: every member that joins adds 1 and every one that leaves adds 1 (2
 * for its departure less its seat), as in coord/coord_ring.c. */
static uint32_t ring_epoch_at(const struct allreduce *a, uint64_t step)
{
	uint32_t epoch = 2 * a->gone;

	for (size_t i = 0; i < a->nseats; i++)
		epoch += a->seat[i].from <= step;
	return epoch;
}

/* Ends a ring operation when the job is over, when allreduce_answer_peers is no longer needed, or when the
 * members have changed and another ring must be formed. */
static bool cancel_ring(void *ctx, struct err *why)
{
	struct allreduce *a = ctx;

	a->ended = a->cfg.attend(a->cfg.ctx, why);
	if (a->ended)
		return true;
	/* Give queued pushes a chance to go out: other workers may wait for them. */
	client_poke(a->client);
	if (a->answering && client_has_all(a->client)) {
		err_set(why, ERR_STALE, "all members have the mean");
		return true;
	}
	if (ring_epoch_at(a, a->at) == a->formed)
		return false;
	err_set(why, ERR_STALE, "the members of the ring have changed");
	return true;
}

/* Chooses the TCP address to listen at, with port 0 where none is configured. On the coordinator's
 * host: where the servers listen. Elsewhere: at the address of the interface
 * that reaches the coordinator. */
static enum err_code choose_listen_address(const struct allreduce_config *cfg,
    char out[static NET_TEXT], struct err *e)
{
	const char *servers = cfg->job->conf.listen, *why;
	char here[NET_TEXT];
	const struct choice choice = { cfg->listen, cfg->iface,
		cfg->id->run_dir ? NULL : cfg->id->data, here };

	listen_address_with_port(listen_address_is_any(servers) ? "127.0.0.1:0" : servers, ":0",
	    here);
	return listen_address_choose(&choice, out, &why, e);
}

/* Path of a Unix socket in the run directory, named after the position (by_rank) or the process;
 * without a run directory out stays as it is. The position's path is preferred where it is known and
 * free: the socket of a killed worker is then replaced. */
static void name_ring_socket(const struct allreduce_config *cfg, bool by_rank,
    char out[static NET_TEXT])
{
	char name[40], *path;

	if (!cfg->id->run_dir)
		return;
	if (by_rank)
		snprintf(name, sizeof name, "ring-%d.sock", cfg->rank);
	else
		snprintf(name, sizeof name, "ring-p%d.sock", (int)getpid());
	path = rundir_path(cfg->id->run_dir, name);
	if (strlen(path) < NET_TEXT)
		snprintf(out, NET_TEXT, "%s", path);
	free(path);
}

enum err_code allreduce_new(const struct allreduce_config *cfg, struct allreduce **out,
    struct err *e)
{
	struct allreduce *a = mem_alloc(sizeof *a);
	char listen[NET_TEXT];
	struct ring_config rc = { .id = &cfg->id->conn,
		.incarnation = cfg->incarnation,
		.transport = transport_find(cfg->job->conf.transport),
		.listen = listen,
		.deadline = cfg->job->conf.deadline,
		.log = cfg->log,
		.attend = cancel_ring,
		.ctx = a,
		.attend_fd = cfg->attend_fd };
	enum err_code code;

	a->cfg = *cfg;
	name_ring_socket(cfg, cfg->rank >= 0, a->local);
	rc.local = a->local[0] ? a->local : NULL;
	code = choose_listen_address(cfg, listen, e);
	if (!code)
		code = suites_choose(cfg->job->conf.suite, &rc.local_suite, &rc.remote_suite, e);
	if (!code)
		code = conf_server_rule(&cfg->job->conf, &a->rule, e);
	if (!code)
		code = ring_new(&rc, &a->ring, e);
	/* The socket of this position is in use: a living worker is being replaced. Use a path by
	 * process id. */
	if (code == ERR_EXISTS && cfg->rank >= 0) {
		name_ring_socket(cfg, false, a->local);
		code = ring_new(&rc, &a->ring, e);
	}
	if (code) {
		allreduce_free(a);
		return code;
	}
	snprintf(a->tcp, sizeof a->tcp, "%s", ring_address(a->ring));
	*out = a;
	return ERR_OK;
}

void allreduce_free(struct allreduce *a)
{
	if (!a)
		return;
	ring_free(a->ring);
	for (size_t i = 0; i < a->cfg.job->ntables; i++) {
		if (a->state)
			free(a->state[i]);
		if (a->version)
			free(a->version[i]);
	}
	free(a->state);
	free((void *)a->version);
	free(a->sent);
	free(a->seat);
	free(a);
}

/* The update rule of table i. */
static struct table_rules_choice rule_of_table(const struct allreduce *a, size_t i)
{
	return conf_rule_of_table(&a->rule, a->cfg.job->table[i].name);
}

json_t *allreduce_address(const struct allreduce *a)
{
	return json_pack("{s:s, s:s}", "tcp", a->tcp, "unix", a->local);
}

enum err_code allreduce_begin(struct allreduce *a, uint32_t rank, struct client *client,
    struct params *p, struct err *e)
{
	const struct job *job = a->cfg.job;

	ring_set_rank(a->ring, rank);
	a->rank = rank;
	a->client = client;
	a->p = p;
	a->state = mem_array(job->ntables, sizeof *a->state);
	a->version = mem_array(job->ntables, sizeof *a->version);
	for (size_t i = 0; i < job->ntables; i++) {
		const struct optim_rule *rule = rule_of_table(a, i).rule;
		size_t n = job->table[i].rows * job->table[i].cols * rule->nvectors;

		if (job->table[i].sparse)
			continue;
		a->nparts += p->table[i]->nparts;
		a->version[i] = mem_array(p->table[i]->nparts, sizeof **a->version);
		a->state[i] = mem_try_array(n + 1, sizeof **a->state);
		p->good[i] = mem_try_array(table_elements(p->table[i]), sizeof **p->good);
		if (!a->state[i] || !p->good[i])
			return err_set(e, ERR_NOMEM,
			    "no memory for the state of %s for table \"%s\"", rule->name,
			    job->table[i].name);
	}
	a->sent = mem_array(a->nparts, sizeof *a->sent);
	return ERR_OK;
}

/* ---- who is in it ---- */

/* The members at a step, for ring_form; returns their number. */
static size_t ring_members_at(const struct allreduce *a, uint64_t step, struct ring_member *out)
{
	size_t n = 0;

	for (size_t i = 0; i < a->nseats; i++)
		if (a->seat[i].from <= step)
			out[n++] = a->seat[i].who;
	return n;
}

/* The number of members at a step. *position: this worker's position among them; that number when it is
 * none. */
static size_t position_at(const struct allreduce *a, uint64_t step, size_t *position)
{
	size_t n = 0;

	*position = SIZE_MAX;
	for (size_t i = 0; i < a->nseats; i++)
		if (a->seat[i].from <= step) {
			if (a->seat[i].who.rank == a->rank)
				*position = n;
			n++;
		}
	*position = *position < n ? *position : n;
	return n;
}

/* Pushes this worker's part of the mean of table i. Partition k, counted over all tables, is sent
 * by member k modulo n. first: number of the table's first partition. */
static enum err_code send_table(struct allreduce *a, size_t i, size_t first, size_t position,
    size_t n, struct err *e)
{
	const struct table *t = a->p->table[i];
	const float *mean = a->going.mean ? a->going.mean + (a->p->g[i] - a->p->reduced) : NULL;
	enum err_code rc = ERR_OK;

	for (uint32_t part = 0; !rc && part < t->nparts; part++)
		if (!a->sent[first + part] && (first + part) % n == position) {
			rc = client_push_mean(a->client, t, a->going.step, part, a->going.examples,
			    mean, e);
			a->sent[first + part] = !rc;
		}
	return rc;
}

/* Pushes this worker's part of `going` to the servers. */
static enum err_code send_mean(struct allreduce *a, struct err *e)
{
	enum err_code rc = ERR_OK;
	size_t first = 0, position, n = position_at(a, a->going.step, &position);

	for (size_t i = 0; !rc && n && i < a->cfg.job->ntables; i++)
		if (!a->cfg.job->table[i].sparse) {
			rc = send_table(a, i, first, position, n, e);
			first += a->p->table[i]->nparts;
		}
	/* After a failure, the next view tries again, as going_gone differs. */
	if (!rc)
		a->going_gone = a->gone;
	client_poke(a->client);
	return rc;
}

void allreduce_view(struct allreduce *a, const struct view *view)
{
	const struct view_ring *ring = view->ring;
	size_t n = ring ? ring->nmembers : 0;

	free(a->seat);
	a->seat = mem_array(n + 1, sizeof *a->seat);
	a->nseats = 0;
	a->gone = ring ? (uint32_t)ring->gone : 0;
	for (size_t i = 0; i < n; i++) {
		const struct view_ring_member *o = &ring->members[i];
		struct seat *s = &a->seat[a->nseats];

		*s = (struct seat){ .from = (uint64_t)o->from };
		s->who.rank = (uint32_t)o->rank;
		s->who.incarnation = o->incarnation;
		snprintf(s->who.tcp, sizeof s->who.tcp, "%s", o->tcp);
		snprintf(s->who.local, sizeof s->who.local, "%s",
		    a->cfg.id->run_dir ? o->unix_path : "");
		a->nseats += key_from_text(o->key, s->who.key);
	}
	if (a->going.any && a->going_gone != a->gone)
		send_mean(a, NULL);
}

/* ---- a step ---- */

static const struct table *first_dense_table(const struct allreduce *a)
{
	size_t i = 0;

	while (a->cfg.job->table[i].sparse)
		i++;
	return a->p->table[i];
}

/* Connects the ring of the members at this step. */
static enum err_code form_ring(struct allreduce *a, uint64_t step, struct err *e)
{
	struct ring_member *m = mem_array(a->nseats + 1, sizeof *m);
	size_t n = ring_members_at(a, step, m);
	enum err_code rc;

	a->formed = ring_epoch_at(a, step);
	rc = ring_form(a->ring, a->formed, m, n, e);
	if (!rc && n > 1)
		log_info(a->cfg.log, "in ring epoch %u with %zu worker%s from step %llu on",
		    a->formed, n, NUM_S(n), (unsigned long long)step);
	free(m);
	return rc;
}

void allreduce_answer_peers(struct allreduce *a)
{
	struct err e = { 0 };

	/* client_has_all: every worker has completed the step, so every one has the mean. */
	if (!a->meeting || a->answering || !a->last.any || client_has_all(a->client))
		return;
	a->answering = true;
	ring_set_deadline(a->ring, a->cfg.job->conf.deadline);
	if (ring_epoch_at(a, a->at) != a->formed || ring_check(a->ring, &e))
		if (form_ring(a, a->at, &e))
			a->formed = 0;
	a->answering = false;
}

enum err_code allreduce_await_members(struct allreduce *a, uint64_t step, struct err *e)
{
	enum err_code rc = client_want_all_at(a->client, first_dense_table(a), step, e);

	a->meeting = true;
	if (!rc)
		rc = client_wait(a->client, step, e);
	a->meeting = false;
	/* The wait included the acknowledgements that allreduce_hand_over requested: the mean is on
	 * all servers. */
	if (!rc)
		a->going.any = false;
	return rc;
}

enum err_code allreduce_hand_over(struct allreduce *a, uint64_t step, bool *first, struct err *e)
{
	const struct job *job = a->cfg.job;
	enum err_code rc = ERR_OK;

	*first = !a->begun;
	if (a->last.any) {
		a->going = a->last;
		a->last.any = false;
		memset(a->sent, 0, a->nparts * sizeof *a->sent);
		rc = send_mean(a, e);
	}
	for (size_t i = 0; !rc && i < job->ntables; i++) {
		size_t n = job->table[i].rows * job->table[i].cols;

		if (job->table[i].sparse)
			continue;
		if (a->begun)
			rc = client_want_shown(a->client, a->p->table[i], step, e);
		for (unsigned k = 0; !rc && !a->begun && k < rule_of_table(a, i).rule->nvectors;
		     k++)
			rc = client_want_state(a->client, a->p->table[i], step, k + 1,
			    a->state[i] + k * n, e);
	}
	return rc;
}

/* Takes over how many updates the servers have made, for rules that depend on it. */
static void take_part_versions(struct allreduce *a)
{
	for (size_t i = 0; i < a->cfg.job->ntables; i++)
		for (uint32_t part = 0; a->version[i] && part < a->p->table[i]->nparts; part++)
			a->version[i][part] = client_version(a->client, a->p->table[i], part);
	a->begun = true;
}

/* Updates one partition exactly as a server does (shard/part.c): a mean that a server would refuse
 * changes nothing. */
static void update_part(struct allreduce *a, size_t i, uint32_t part, const struct optim_rule *rule,
    const struct optim_hyper *h, const float *mean, uint32_t examples)
{
	const struct table *t = a->p->table[i];
	size_t n = table_part_elements(t, part), at = table_part_begin(t, part),
	       all = table_elements(t);
	float *vector[OPTIM_VECTORS_MAX] = { NULL };

	/* Keep the last good values (params.h). */
	if (a->p->w_is_good)
		memcpy(a->p->good[i] + at, a->p->w[i] + at, n * sizeof(float));
	if (!vec_all_bounded(n, mean + at))
		return;
	for (unsigned k = 0; k < rule->nvectors; k++)
		vector[k] = a->state[i] + k * all + at;
	rule->step(h, ++a->version[i][part], t->decay, n, a->p->w[i] + at, vector,
	    &(struct optim_gradient){ mean + at, 1.0f, examples, 0, 0 });
}

/* Updates all reduced tables with the mean, partition by partition. */
static void update_params(struct allreduce *a, uint64_t step, const float *mean, uint32_t examples)
{
	float factor = (float)schedule_factor(&a->rule.schedule, step);

	for (size_t i = 0; i < a->cfg.job->ntables; i++) {
		struct table_rules_choice use = rule_of_table(a, i);
		struct optim_hyper h = *use.hyper;

		h.lr *= factor;
		for (uint32_t part = 0; a->version[i] && part < a->p->table[i]->nparts; part++)
			update_part(a, i, part, use.rule, &h, mean + (a->p->g[i] - a->p->reduced),
			    examples);
	}
	a->p->has_good |= a->p->w_is_good;
	a->p->w_is_good = false;
}

/* Is this an error of the ring, which another ring may not have? */
static bool is_ring_error(enum err_code rc)
{
	return rc == ERR_STALE || rc == ERR_CLOSED || rc == ERR_UNREACH || rc == ERR_TIMEOUT ||
	    rc == ERR_IO || rc == ERR_PROTO || rc == ERR_AUTH || rc == ERR_FENCED ||
	    rc == ERR_NOTREADY;
}

/* How long this worker tries, in ns. When two members cannot reach each other, all wait for both.
 * The one with the highest position gives up first, after three quarters of the deadline, so that the
 * others have the rest to go on without it. */
static int64_t patience_at(const struct allreduce *a, uint64_t step)
{
	int64_t deadline = a->cfg.job->conf.deadline;
	size_t position, n = position_at(a, step, &position);

	return n > 1 ? deadline - deadline / 4 * (int64_t)position / (int64_t)(n - 1) : deadline;
}

enum err_code allreduce_update(struct allreduce *a, uint64_t step, uint32_t examples, struct err *e)
{
	const float *mean = NULL;
	uint64_t total = 0;
	int64_t since = clock_now();
	uint32_t epoch = ring_epoch_at(a, step);
	enum err_code rc = ring_announce_step(a->ring, step, a->p->nreduced, e);

	if (rc)
		return rc;
	if (!a->begun)
		take_part_versions(a);
	if (examples && !vec_all_bounded(a->p->nreduced, a->p->reduced)) {
		log_warn(a->cfg.log,
		    "step %llu: this worker's gradient is not finite, or exceeds 2^84, and is "
		    "left out",
		    (unsigned long long)step);
		examples = 0;
	}
	a->at = step;
	for (;;) {
		/* New members: begin the wait again. */
		if (ring_epoch_at(a, step) != epoch)
			since = clock_now();
		epoch = ring_epoch_at(a, step);
		ring_set_deadline(a->ring, patience_at(a, step) - (clock_now() - since));
		rc = epoch == a->formed ? ERR_OK : form_ring(a, step, e);
		if (!rc)
			rc = ring_reduce(a->ring, step, a->p->reduced, a->p->nreduced, examples,
			    &mean, &total, e);
		if (!rc)
			break;
		a->formed = 0;
		if (a->ended || !is_ring_error(rc) || clock_now() - since > patience_at(a, step))
			return rc;
		log_info(a->cfg.log, "step %llu is repeated: %s", (unsigned long long)step, e->msg);
		rc = a->cfg.pause(a->cfg.ctx, e);
		if (rc)
			return rc;
	}
	a->last = (struct held){ true, step, total < UINT32_MAX ? (uint32_t)total : UINT32_MAX,
		total ? mean : NULL };
	if (total)
		update_params(a, step, mean, a->last.examples);
	return ERR_OK;
}

enum err_code allreduce_verify(struct allreduce *a, bool *compared, struct err *e)
{
	const struct job *job = a->cfg.job;
	enum err_code rc = ERR_OK;

	*compared = a->begun;
	if (!a->begun)
		return ERR_OK;
	for (size_t i = 0; !rc && i < job->ntables; i++)
		if (!job->table[i].sparse)
			rc = client_want(a->client, a->p->table[i], CLIENT_NOW, NULL, a->p->g[i],
			    e);
	if (!rc)
		rc = client_wait(a->client, CLIENT_NOW, e);
	for (size_t i = 0; !rc && i < job->ntables; i++)
		if (!job->table[i].sparse &&
		    memcmp(a->p->g[i], a->p->w[i],
		        table_elements(a->p->table[i]) * sizeof(float)) != 0)
			rc = err_set(e, ERR_FAILED,
			    "table \"%s\": the servers' parameters differ from the workers'",
			    job->table[i].name);
	return rc;
}

uint64_t allreduce_bytes(const struct allreduce *a)
{
	struct ring_stats st;

	ring_stats(a->ring, &st);
	return st.sent_bytes;
}
