/* SPDX-License-Identifier: ISC */
/* The coordinator among servers and workers that crash, sleep, lose their sessions
 * and come back, and itself killed before and after it writes its state, in
 * thousands of random orders.  Checked at every message: an epoch never tells of
 * two layouts and never goes back; nobody is counted on that has not been given
 * what he is counted on for; who takes part in a step changes at no server that has
 * gone beyond it.  In the end all is whole again.
 *
 *     coord_sim [SEEDS [FIRST]] */
#include "coord_sim.h"

/* ---- what peers take ---- */

static void tell(struct sim *x, struct peer *p, json_t *msg)
{
	push(x, p->out, &p->nout, msg);
}

/* A server that is the last of a chain gives copies to one that knows of it. */
static void give_to(struct sim *x, struct peer *p, unsigned self, unsigned j,
    const struct layout *l)
{
	struct peer *to = process(x, p->view, j);
	bool some = false;

	if (!to || x->s.now < to->wakes_at || to->epoch != p->epoch || p->told[j])
		return;

	for (size_t k = 0; k < l->table[0].nruns; k++) {
		const struct run *r = &l->table[0].run[k];

		if (r->joining != j || !r->nchain || r->chain[r->nchain - 1] != self)
			continue;
		some = true;
		memset(to->whole + r->first, 1, r->count);
	}
	p->told[j] = some;
	if (some)
		tell(x, p,
		    json_pack("{s:s, s:i, s:I}", "op", "copied", "server", (int)j, "epoch",
		        (json_int_t)l->epoch));
}

static void give(struct sim *x, struct peer *p, unsigned self)
{
	struct layout l;

	if (!p->view || chance(x, 10))
		return;
	if (layout_from_json(json_object_get(p->view, "layout"), &l, NULL))
		abort();
	for (unsigned j = 0; j < SERVERS && l.ntables; j++)
		if (j != self)
			give_to(x, p, self, j, &l);
	layout_release(&l);
}

/* What it is no longer in a chain for, it may have missed changes of. */
static void forget(struct peer *p, unsigned self, const struct layout *l)
{
	for (size_t k = 0; k < l->table[0].nruns; k++) {
		const struct run *r = &l->table[0].run[k];

		if (run_chain_index(r, self) < 0 && r->joining != self)
			memset(p->whole + r->first, 0, r->count * sizeof *p->whole);
	}
}

/* Has it, or is it being given, anything by the view that it has? */
static bool holds_something(const struct peer *p, unsigned self)
{
	bool some = false;
	struct layout l;

	if (!p->view || layout_from_json(json_object_get(p->view, "layout"), &l, NULL))
		return false;
	for (size_t k = 0; l.ntables && k < l.table[0].nruns; k++)
		some |= run_chain_index(&l.table[0].run[k], self) >= 0 ||
		    l.table[0].run[k].joining == self;
	layout_release(&l);
	return some;
}

/* From its step on members are others: not a step that this server has let pass. */
static void check_members(struct sim *x, struct peer *p, unsigned self, const json_t *view)
{
	const json_t *m;
	size_t i;

	json_array_foreach(json_object_get(view, "members"), i, m) {
		uint64_t at = (uint64_t)json_int(view, "members_base", 0) + i,
		         step = (uint64_t)json_int(m, "step", 0);

		if (at < p->settled)
			continue;
		if (p->settled && p->first_free > step && holds_something(p, self))
			fail(x, "members change at a step that a server has let pass");
		p->settled = at + 1;
	}
	if ((uint64_t)json_int(view, "decided", 0) >= p->proposal)
		p->hold = UINT64_MAX;
}

static void take_view(struct sim *x, unsigned i, const json_t *view)
{
	struct peer *p = &x->peer[i];
	const json_t *jl = json_object_get(view, "layout"), *row;
	struct layout l;
	uint64_t rev = (uint64_t)json_int(view, "rev", 0);

	if (rev < p->rev)
		fail(x, "a view is older than the one before it");
	p->rev = rev;
	if (layout_from_json(jl, &l, NULL))
		abort();
	if (l.epoch < p->epoch)
		fail(x, "an epoch goes back");
	if (i < SERVERS && l.epoch != p->epoch && l.ntables) {
		memset(p->told, 0, sizeof p->told);
		forget(p, i, &l);
	}
	p->epoch = l.epoch;
	layout_release(&l);
	if (i < SERVERS)
		check_members(x, p, i, view);
	json_decref(p->view);
	p->view = json_incref((json_t *)view);
	if (i < SERVERS) {
		tell(x, p, json_pack("{s:s, s:I}", "op", "ack", "rev", (json_int_t)rev));
		return;
	}
	row = json_array_get(json_object_get(view, "workers"), i - SERVERS);
	if (json_u64s(row, "incarnation", 0) == p->self.incarnation &&
	    strcmp(json_str(row, "state", ""), "active") == 0 &&
	    p->step < (uint64_t)json_int(row, "from", 0))
		p->step = (uint64_t)json_int(row, "from", 0);
	tell(x, p, json_pack("{s:s, s:i}", "op", "confirm", "epoch", (int)p->epoch));
}

static void take_proposal(struct sim *x, struct peer *p, const json_t *msg)
{
	uint64_t step = (uint64_t)json_int(msg, "step", 0);
	bool yes = step >= p->first_free;

	p->proposal = (uint64_t)json_int(msg, "id", 0);
	p->hold = yes ? step : UINT64_MAX;
	tell(x, p,
	    json_pack("{s:s, s:I, s:b, s:I, s:I}", "op", "vote", "id", (json_int_t)p->proposal,
	        "yes", yes, "first_free", (json_int_t)p->first_free, "clock", (json_int_t)0));
}

/* ---- a turn of a peer ---- */

static void live_again(struct sim *x, unsigned i)
{
	struct peer *p = &x->peer[i];

	json_decref(p->view);
	*p = (struct peer){ .self = p->self, .alive = true, .hold = UINT64_MAX };
	p->self.incarnation = ++x->incarnations;
	p->self.kind = COORD_NOBODY;
	snprintf(p->name, sizeof p->name, "%s-%u", i < SERVERS ? "server" : "worker",
	    i < SERVERS ? i : i - SERVERS);
	p->self.name = p->self.key = p->name;
}

static json_t *join_of(unsigned i)
{
	if (i < SERVERS)
		return json_pack("{s:s, s:i, s:i, s:s, s:s}", "op", "server_join", "index", (int)i,
		    "pid", 1, "host", "h", "tcp", "t");
	return json_pack("{s:s, s:i, s:i, s:s, s:i, s:[{s:s, s:i, s:i}]}", "op", "worker_join",
	    "rank", (int)(i - SERVERS), "pid", 1, "host", "h", "examples", 100000, "tables", "name",
	    "w", "rows", (int)(PARTS * PART_ELEMENTS), "cols", 1);
}

/* The coordinator hears one message of the peer. */
static void hear(struct sim *x, struct peer *p, json_t *msg)
{
	struct err e = { 0 };
	json_t *answer = hear_json(x->s.c, &p->self, msg, x->s.now, &e);

	json_decref(msg);
	/* It has what was told last; what is new, it hears with the others. */
	if (!p->joined && answer) {
		p->joined = true;
		if (x->view)
			push(x, p->in, &p->nin, json_incref(x->view));
	} else if (e.code == ERR_FENCED) {
		/* It ends, and is started again. */
		drop_session(p);
		p->alive = false;
		p->back_at = x->s.now + (int64_t)chance(x, 20) * TURN;
	} else if (!p->joined || e.code == ERR_CLOSED) {
		drop_session(p);
		p->dial_at = x->s.now + 10 * TURN;
	}
	json_decref(answer);
	speak(x);
}

/* A step: all servers of its layout take it, or it has to wait. */
static void train(struct sim *x, struct peer *p)
{
	struct peer *to[SERVERS];
	unsigned n = 0;

	for (unsigned s = 0; p->view && s < SERVERS; s++) {
		if (!json_flag(json_array_get(json_object_get(p->view, "servers"), s), "live"))
			continue;
		to[n] = process(x, p->view, s);
		if (!to[n] || to[n]->wakes_at > x->s.now || to[n]->epoch != p->epoch ||
		    p->step >= to[n]->hold)
			return;
		n++;
	}
	for (unsigned s = 0; s < n; s++)
		if (to[s]->first_free <= p->step)
			to[s]->first_free = p->step + 1;
	p->step += n > 0;
}

static bool turn(struct sim *x, unsigned i)
{
	struct peer *p = &x->peer[i];
	int64_t now = x->s.now;

	if (!p->alive && now >= p->back_at)
		live_again(x, i);
	if (!p->alive || now < p->wakes_at)
		return false;
	if (!p->session && x->up && now >= p->dial_at) {
		p->session = true;
		tell(x, p, join_of(i));
	}
	if (p->session && p->joined && now >= p->beat_at) {
		json_t *beat = json_pack("{s:s, s:{s:I}}", "op", "beat", "stats", "step",
		    (json_int_t)p->step);

		tell(x, p, beat);
		p->beat_at = now + 20 * TURN;
	}
	if (i >= SERVERS && p->joined && chance(x, 3) == 0)
		train(x, p);
	if (i < SERVERS && p->joined)
		give(x, p, i);
	while (p->nin && chance(x, 3)) {
		json_t *msg = p->in[0];

		memmove(p->in, p->in + 1, --p->nin * sizeof *p->in);
		if (strcmp(json_str(msg, "op", ""), "view") == 0)
			take_view(x, i, msg);
		else if (strcmp(json_str(msg, "op", ""), "propose") == 0)
			take_proposal(x, p, msg);
		json_decref(msg);
	}
	while (p->session && x->up && p->nout && chance(x, 3)) {
		json_t *msg = p->out[0];

		memmove(p->out, p->out + 1, --p->nout * sizeof *p->out);
		hear(x, p, msg);
	}
	return true;
}

/* ---- faults ---- */

/* All servers there, awake, and with all their copies: one more may be lost. */
static bool is_whole(struct sim *x)
{
	json_t *status, *v;
	struct layout l;
	bool whole;

	for (unsigned i = 0; i < SERVERS; i++)
		if (!x->peer[i].alive || !x->peer[i].session || !x->peer[i].joined ||
		    x->s.now < x->peer[i].wakes_at)
			return false;
	if (!x->up || !coord_is_placed(x->s.c))
		return false;
	status = coord_status(x->s.c, x->s.now);
	whole = json_int(status, "partitions_moving", 1) == 0 &&
	    json_int(status, "servers", 0) == SERVERS;
	json_decref(status);
	if (!whole)
		return false;
	v = coord_view(x->s.c);
	if (layout_from_json(json_object_get(v, "layout"), &l, NULL))
		abort();
	for (size_t r = 0; r < l.table[0].nruns; r++) {
		whole &= l.table[0].run[r].nchain == 2 && l.table[0].run[r].joining == NO_SERVER;
		/* And all of them know that they are what they are. */
		for (unsigned i = 0; i < SERVERS; i++)
			whole &= x->peer[i].epoch == l.epoch;
	}
	layout_release(&l);
	json_decref(v);
	return whole;
}

static void strike(struct sim *x)
{
	unsigned i = (unsigned)chance(x, ALL - 1); /* with no worker left the job ends */
	struct peer *p = &x->peer[i];

	if (i < SERVERS ? !is_whole(x) : !p->alive || x->s.now < p->wakes_at)
		return;
	x->kills++;
	switch (chance(x, 3)) {
	case 0:
		if (p->session && x->up)
			coord_session_gone(x->s.c, &p->self, x->s.now);
		drop_session(p);
		p->alive = false;
		p->back_at = x->s.now + (int64_t)(1 + chance(x, 400)) * TURN;
		break;
	case 1:
		p->wakes_at = x->s.now + (int64_t)chance(x, 700) * TURN;
		break;
	default:
		if (p->session && x->up)
			coord_session_gone(x->s.c, &p->self, x->s.now);
		drop_session(p);
		p->dial_at = x->s.now + (int64_t)chance(x, 100) * TURN;
		break;
	}
	if (x->up)
		speak(x);
}

static const char *at_the_end(struct sim *x)
{
	json_t *status;
	bool running;

	if (!x->up)
		return "the coordinator is not there";
	status = coord_status(x->s.c, x->s.now);
	running = strcmp(json_str(status, "state", ""), "running") == 0 &&
	    json_int(status, "workers", 0) == WORKERS;
	json_decref(status);
	if (!running)
		return "not everybody trains";
	return is_whole(x) ? NULL : "not all is copied";
}

static const char *one_seed(uint64_t seed, bool loud, unsigned *kills)
{
	struct sim *x = calloc(1, sizeof *x);
	const char *wrong;

	scene_open(&x->s, SERVERS, WORKERS);
	x->s.cfg.replicas = 2;
	x->s.cfg.epochs = 0;
	x->s.cfg.lease = 2 * NSEC_PER_SEC;
	rng_init(&x->rng, seed);
	x->fresh = true;
	x->loud = loud;
	for (unsigned i = 0; i < ALL; i++)
		live_again(x, i);
	start(x);
	for (unsigned n = 0; n < FAULTS + PEACE && !x->wrong; n++) {
		x->s.now += TURN;
		if (!x->up && x->s.now >= x->start_at)
			start(x);
		if (n < FAULTS && n > 100 && chance(x, 60) == 0)
			strike(x);
		if (n == FAULTS)
			x->restarts = 100; /* it is not killed any more */
		for (unsigned i = 0; i < ALL; i++)
			turn(x, i);
		if (x->up && n % 5 == 0) {
			coord_tick(x->s.c, x->s.now);
			speak(x);
		}
		if (x->up && coord_phase(x->s.c) >= PHASE_DONE)
			fail(x, "the job has ended");
		if (n > FAULTS + 100 && n % 100 == 0 && !at_the_end(x))
			break;
	}
	if (!x->wrong)
		x->wrong = at_the_end(x);
	wrong = x->wrong;
	*kills += x->kills;
	for (unsigned i = 0; i < ALL; i++) {
		drop_session(&x->peer[i]);
		json_decref(x->peer[i].view);
	}
	for (size_t i = 0; i < x->nnotices; i++)
		json_decref(x->notice[i].msg);
	json_decref(x->state);
	json_decref(x->view);
	scene_close(&x->s);
	free(x);
	return wrong;
}

int main(int argc, char **argv)
{
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 600,
	         first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	unsigned kills = 0, bad = 0;

	for (uint64_t seed = first; seed < first + seeds; seed++) {
		const char *wrong = one_seed(seed, argc > 2 && seeds == 1, &kills);

		if (wrong && bad++ < 10)
			printf("# seed %llu: %s\n", (unsigned long long)seed, wrong);
	}
	ok(bad == 0, "%llu seeds, %u faults: every promise kept, and all whole in the end (%u not)",
	    (unsigned long long)seeds, kills, bad);
	return tap_done();
}
