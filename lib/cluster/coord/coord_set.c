/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "conf/conf_key.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/names.h"

/* Settings that change while the job runs. Those that the computation depends on are decided for a
 * step, like members (coord_change.c), and published in the view, because each step has its own.
 * The others take effect at once. */

static void setting_free(struct setting *s)
{
	if (!s)
		return;
	json_decref(s->set);
	json_decref(s->config);
	conf_release(&s->conf);
	free(s);
}

/* Replaces *conf by the decoded configuration. False: it is not valid, and *conf has the defaults. */
static bool decode_config(const json_t *config, struct conf *conf)
{
	struct err e = { 0 };

	conf_release(conf);
	if (!conf_from_json(config, conf, &e))
		return true;
	conf_init(conf);
	return false;
}

void coord_settings_begin(struct coord *c)
{
	c->settings.base = json_incref(c->cfg.config);
	decode_config(c->settings.base, &c->settings.base_conf);
	c->conf = &c->settings.base_conf;
}

void coord_settings_release(struct coord *c)
{
	for (unsigned i = 0; i < c->settings.nkept; i++)
		setting_free(c->settings.kept[i]);
	setting_free(c->settings.requested);
	free(c->tables.request);
	json_decref(c->settings.base);
	conf_release(&c->settings.base_conf);
	json_decref(c->settings.planned);
	json_decref(c->settings.past);
}

/* Record who has set each key of s, and from which step on. Takes the reference to step. */
static void record_past_setting(struct coord *c, const struct setting *s, json_t *step)
{
	const char *key;
	json_t *v;

	if (!c->settings.past)
		c->settings.past = json_object();
	json_object_foreach(s->set, key, v)
		json_object_set_new(c->settings.past, key,
		    json_pack("{s:O, s:s}", "step", step, "who", s->who));
	json_decref(step);
}

/* Takes epochs and steps from the configuration, if it has them. They are not live: later changes
 * repeat the first values. */
static void apply_job_end(struct coord *c, const struct conf *conf)
{
	if (conf_given(conf, conf_key_find("job.epochs", NULL)))
		c->cfg.epochs = (uint64_t)conf->job.epochs;
	if (conf_given(conf, conf_key_find("job.steps", NULL)))
		c->cfg.steps = (uint64_t)conf->job.steps;
}

/* Uses a configuration, and the values derived from it, from now on. */
static void apply_config(struct coord *c, json_t *config, const struct conf *conf,
    const struct coord_setting *now)
{
	c->cfg.config = config;
	c->conf = conf;
	c->cfg.batch = now->batch;
	c->cfg.lockstep = now->lockstep;
	apply_job_end(c, conf);
	c->settings.unwaited |= c->cfg.on_worker_loss == COORD_WAIT &&
	    now->on_worker_loss != COORD_WAIT;
	c->cfg.on_worker_loss = now->on_worker_loss;
	c->cfg.loss_wait = now->loss_wait;
}

/* Makes s the present settings and owns it. False: its configuration is not valid. */
static bool append_setting(struct coord *c, struct setting *s)
{
	bool sound = decode_config(s->config, &s->conf);

	if (c->settings.nkept == SETTINGS_KEPT) {
		struct setting *first = c->settings.kept[0];

		json_decref(c->settings.base);
		c->settings.base = json_incref(first->config);
		conf_release(&c->settings.base_conf);
		c->settings.base_conf = first->conf;
		first->conf = (struct conf){ 0 };
		c->settings.base_number = first->number;
		record_past_setting(c, first, json_integer((json_int_t)first->step));
		setting_free(first);
		memmove(c->settings.kept, c->settings.kept + 1,
		    --c->settings.nkept * sizeof *c->settings.kept);
	}
	c->settings.kept[c->settings.nkept++] = s;
	apply_config(c, s->config, &s->conf, &s->now);
	return sound;
}

static struct setting *setting_new(const struct coord_setting *from)
{
	struct setting *s = mem_alloc(sizeof *s);

	s->set = json_deep_copy(from->set);
	s->config = json_deep_copy(from->config);
	s->now = *from;
	s->now.set = NULL;
	s->now.config = NULL;
	snprintf(s->what, sizeof s->what, "%s", from->what);
	snprintf(s->who, sizeof s->who, "%s", from->who);
	s->now.what = s->now.who = NULL;
	return s;
}

static void apply_setting_at_once(struct coord *c, const struct coord_setting *from)
{
	struct setting *s = setting_new(from),
	               *last = c->settings.nkept ? c->settings.kept[c->settings.nkept - 1] : NULL;
	json_t **config = last ? &last->config : &c->settings.base;
	struct conf *conf = last ? &last->conf : &c->settings.base_conf;

	record_past_setting(c, s, json_null());
	/* The newest decided settings get these keys, too, so that later changes are based on
	 * them. */
	json_decref(*config);
	*config = json_incref(s->config);
	decode_config(*config, conf);
	if (last)
		last->now = s->now;
	apply_config(c, *config, conf, &s->now);
	coord_event(c, "set", "%s, by %s, at once", s->what, s->who);
	setting_free(s);
	coord_changed(c);
}

/* May one more change be decided? Not if that would drop a membership or settings entry that the
 * slowest worker still needs. */
bool coord_settings_have_room(const struct coord *c)
{
	uint64_t slowest = UINT64_MAX;

	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_ACTIVE &&
		    coord_worker_step(&c->worker[i]) < slowest)
			slowest = coord_worker_step(&c->worker[i]);
	return !coord_is_deciding(c) &&
	    !(c->membership.n == MEMBERS_KEPT && c->membership.entry[1].step > slowest) &&
	    !(c->settings.nkept == SETTINGS_KEPT && c->settings.kept[0]->step > slowest);
}

enum err_code coord_request_settings(struct coord *c, const struct coord_setting *s, int64_t now,
    uint64_t *ticket, struct err *e)
{
	if (c->phase == PHASE_FORMING && !s->at_once)
		return err_set(e, ERR_NOTREADY,
		    "the job is still forming: ps-ctl wait --for ready, then set");
	if (c->phase > PHASE_RUNNING)
		return err_set(e, ERR_NOTREADY,
		    "the job is %s: its settings no longer have an effect",
		    coord_phase_name(c->phase));
	if (coord_is_deciding(c) || (!s->at_once && !coord_settings_have_room(c)))
		return err_set(e, ERR_EXISTS,
		    coord_is_deciding(c) ? "another change is being decided"
		                         : "there are too many planned changes");
	*ticket = ++c->settings.tickets;
	if (s->at_once) {
		apply_setting_at_once(c, s);
		coord_ticket_decided(c, 0);
		coord_progress(c, now);
		return ERR_OK;
	}
	c->settings.requested = setting_new(s);
	coord_change_request(c, CHANGE_SET, 0, WORKER_EMPTY);
	coord_progress(c, now);
	return ERR_OK;
}

void coord_apply_settings_before_start(struct coord *c, const struct coord_setting *from)
{
	struct setting *s = setting_new(from);

	s->number = ++c->settings.newest;
	c->settings.applied_step = -1;
	append_setting(c, s);
	coord_event(c, "set", "%s, by %s, to begin with", s->what, s->who);
	coord_changed(c);
}

enum coord_answer coord_find_answer(const struct coord *c, uint64_t ticket, uint64_t *step,
    int64_t *number, struct err *e)
{
	const struct outcome *o = &c->settings.outcome[ticket % OUTCOMES_KEPT];

	if (ticket > c->settings.decided_ticket)
		return COORD_PENDING;
	if (o->ticket != ticket || o->why[0]) {
		err_set(e, ERR_CONFIG, "%s",
		    o->ticket == ticket
		        ? o->why
		        : "too many later changes hide its outcome; ps-ctl get shows the settings");
		return COORD_REFUSED;
	}
	*step = o->step;
	*number = o->number;
	return COORD_AGREED;
}

bool coord_is_deciding(const struct coord *c)
{
	return c->settings.requested || c->tables.request;
}

uint64_t coord_setting_earliest_step(const struct coord *c)
{
	return c->settings.requested ? c->settings.requested->now.at : 0;
}

const json_t *coord_setting_proposed(const struct coord *c)
{
	return c->settings.requested ? c->settings.requested->set : NULL;
}

void coord_ticket_refused(struct coord *c, const char *why)
{
	struct outcome *o = &c->settings.outcome[c->settings.tickets % OUTCOMES_KEPT];

	*o = (struct outcome){ .ticket = c->settings.tickets };
	snprintf(o->why, sizeof o->why, "%s", why);
	c->settings.decided_ticket = c->settings.tickets;
}

void coord_ticket_decided(struct coord *c, uint64_t step)
{
	c->settings.outcome[c->settings.tickets % OUTCOMES_KEPT] = (struct outcome){
		.ticket = c->settings.tickets,
		.step = step,
		.number = c->settings.newest
	};
	c->settings.decided_ticket = c->settings.tickets;
}

void coord_settings_refuse_pending(struct coord *c)
{
	if (!coord_is_deciding(c))
		return;
	coord_ticket_refused(c, "the job ended before it was decided");
	setting_free(c->settings.requested);
	free(c->tables.request);
	c->settings.requested = NULL;
	c->tables.request = NULL;
}

void coord_setting_refused(struct coord *c, unsigned server, const char *why)
{
	char said[300];

	snprintf(said, sizeof said, "server-%u has no memory for it: %.220s", server, why);
	coord_event(c, "set_refused", "%s, by %s: %s", c->settings.requested->what,
	    c->settings.requested->who, said);
	coord_ticket_refused(c, said);
	setting_free(c->settings.requested);
	c->settings.requested = NULL;
	coord_changed(c);
}

/* The data is leased from `step` on, if the mode now is ssp or asp: begin where the deal of bsp is
 * at that step. */
static void begin_leases_at(struct coord *c, uint64_t step)
{
	const struct members *m = c->membership.n ? &c->membership.entry[c->membership.n - 1]
	                                          : NULL;
	struct step_shape shape;
	struct data_position at;

	if (c->data.leases || c->cfg.lockstep || !m)
		return;
	shape = (struct step_shape){ c->data.examples, m->batch, m->n ? m->n : 1 };
	at = step_data_advance(m->at, m->n ? step - m->step : 0, &shape);
	c->data.leased_from = step;
	coord_job_begin_leases(c, NULL);
	leases_begin_at(c->data.leases, at.epoch, at.offset);
}

void coord_setting_decided(struct coord *c, uint64_t step)
{
	struct setting *s = c->settings.requested;

	c->settings.requested = NULL;
	if (!s)
		return;
	s->step = step;
	s->number = ++c->settings.newest;
	c->settings.applied_step = -1;
	coord_ticket_decided(c, step);
	append_setting(c, s);
	begin_leases_at(c, step);
	coord_members_restart(c, step);
	coord_event(c, "set", "%s, by %s, from step %llu on", s->what, s->who,
	    (unsigned long long)step);
}

void coord_settings_check_applied(struct coord *c)
{
	int64_t last = -1;

	if (c->settings.applied_step >= 0 || !c->settings.newest)
		return;
	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];

		if (w->state != WORKER_ACTIVE)
			continue;
		if (w->figures.settings < c->settings.newest)
			return;
		if (w->figures.settings_step > last)
			last = w->figures.settings_step;
	}
	if (last < 0 && (c->cfg.has_job || !c->settings.nkept))
		return;
	/* Without a job no worker takes steps: the settings apply from their decided step on. */
	if (last < 0)
		last = (int64_t)c->settings.kept[c->settings.nkept - 1]->step;
	c->settings.applied_step = last;
	coord_event(c, "settled", "all workers use the new settings from step %lld on",
	    (long long)last);
	coord_changed(c);
}

/* ---- for the view, the state and people ---- */

int64_t coord_settings_made(const struct coord *c)
{
	return c->settings.newest;
}

bool coord_has_tables(const struct coord *c, const char *list, char unknown[static 64])
{
	const struct table *t;

	for (const char *at = names_first(list); at; at = names_next(at)) {
		snprintf(unknown, 64, "%.*s", (int)strcspn(at, ","), at);
		t = layout_find(&c->layout, unknown);
		if (!t || t->added)
			return false;
	}
	return true;
}

const struct table *coord_model_table(const struct coord *c, size_t *at)
{
	while (*at < c->layout.ntables) {
		const struct table *t = &c->layout.table[(*at)++];

		if (!t->added && !t->dropped)
			return t;
	}
	return NULL;
}

enum err_code coord_fits_rules(const struct coord *c, const struct conf *conf, struct err *e)
{
	return coord_rules_fit_tables(&c->layout, conf, e);
}

void coord_store_planned(struct coord *c, const json_t *list)
{
	json_decref(c->settings.planned);
	c->settings.planned = json_deep_copy(list);
	c->stamp++;
}

json_t *coord_planned(const struct coord *c)
{
	return c->settings.planned;
}

uint64_t coord_batch(const struct coord *c)
{
	return c->cfg.batch;
}

bool coord_is_lockstep(const struct coord *c)
{
	return c->cfg.lockstep;
}

json_t *coord_present_config(const struct coord *c)
{
	return c->cfg.config;
}

const struct conf *coord_present_conf(const struct coord *c)
{
	return c->conf;
}

static json_t *setting_to_row(const struct setting *s)
{
	return json_pack("{s:I, s:I, s:O, s:s, s:s}", "step", (json_int_t)s->step, "number",
	    (json_int_t)s->number, "set", s->set, "what", s->what, "who", s->who);
}

/* The settings that take effect at once, in their newest values. */
static json_t *select_stepless_keys(const json_t *config)
{
	json_t *o = json_object(), *v;
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; i < n; i++)
		if (k[i].live == CONF_AT_ONCE && (v = json_object_get(config, k[i].path)) != NULL)
			json_object_set(o, k[i].path, v);
	return o;
}

void coord_settings_to_view(const struct coord *c, json_t *v)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->settings.nkept; i++)
		json_array_append_new(list,
		    json_pack("{s:I, s:I, s:O}", "step", (json_int_t)c->settings.kept[i]->step,
		        "number", (json_int_t)c->settings.kept[i]->number, "set",
		        c->settings.kept[i]->set));
	json_object_set(v, "config", c->settings.base);
	json_object_set_new(v, "settings_base", json_integer(c->settings.base_number));
	json_object_set_new(v, "changes", list);
	json_object_set_new(v, "settings", json_integer(c->settings.newest));
	json_object_set_new(v, "now", select_stepless_keys(c->cfg.config));
}

json_t *coord_settings_past(const struct coord *c)
{
	return json_deep_copy(c->settings.past);
}

json_t *coord_settings(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->settings.nkept; i++)
		json_array_append_new(list, setting_to_row(c->settings.kept[i]));
	return list;
}

/* The settings in force at a step; NULL: those before the first kept ones. */
static const struct setting *find_setting(const struct coord *c, uint64_t step)
{
	const struct setting *s = NULL;

	for (unsigned i = 0; i < c->settings.nkept; i++)
		if (c->settings.kept[i]->step <= step)
			s = c->settings.kept[i];
	return s;
}

/* Without lockstep each worker counts its own steps: the newest settings are in force. */
static uint64_t settings_step(const struct coord *c, uint64_t step)
{
	return c->cfg.lockstep ? step : UINT64_MAX;
}

const json_t *coord_settings_at(const struct coord *c, uint64_t step)
{
	const struct setting *s = find_setting(c, settings_step(c, step));

	return s ? s->config : c->settings.base;
}

const struct conf *coord_conf_at(const struct coord *c, uint64_t step)
{
	const struct setting *s = find_setting(c, settings_step(c, step));

	return s ? &s->conf : &c->settings.base_conf;
}

struct sync_mode coord_mode_at(const struct coord *c, uint64_t step)
{
	const struct setting *s = find_setting(c, step);

	return s ? s->conf.sync : c->settings.base_conf.sync;
}

static struct state_setting save_setting(const struct setting *s)
{
	return (struct state_setting){ .step = (int64_t)s->step,
		.number = s->number,
		.set = s->set,
		.what = s->what,
		.who = s->who,
		.config = s->config,
		.batch = (int64_t)s->now.batch,
		.lockstep = s->now.lockstep,
		.on_worker_loss = s->now.on_worker_loss,
		.loss_wait = s->now.loss_wait,
		.at = (int64_t)s->now.at };
}

static struct setting *load_setting(const struct state_setting *saved)
{
	struct coord_setting from = { .config = saved->config,
		.set = saved->set,
		.what = saved->what,
		.who = saved->who,
		.batch = (uint64_t)saved->batch,
		.lockstep = saved->lockstep,
		.on_worker_loss = (enum coord_policy)saved->on_worker_loss,
		.loss_wait = saved->loss_wait,
		.at = (uint64_t)saved->at };
	struct setting *s;

	if (!json_is_object(from.config) || !json_is_object(from.set) || !from.batch)
		return NULL;
	s = setting_new(&from);
	s->step = (uint64_t)saved->step;
	s->number = saved->number;
	return s;
}

void coord_settings_save(const struct coord *c, struct state *out)
{
	const struct coord_settings *s = &c->settings;

	out->nsettings = s->nkept;
	out->settings = mem_array(s->nkept, sizeof *out->settings);
	for (unsigned i = 0; i < s->nkept; i++)
		out->settings[i] = save_setting(s->kept[i]);
	out->settings_config = s->base;
	out->settings_base = s->base_number;
	out->settings_made = s->newest;
	out->settings_now = mem_alloc(sizeof *out->settings_now);
	*out->settings_now = (struct state_settings_now){ .batch = (int64_t)c->cfg.batch,
		.lockstep = c->cfg.lockstep,
		.on_worker_loss = c->cfg.on_worker_loss,
		.loss_wait = c->cfg.loss_wait };
	out->settings_past = s->past;
	out->planned = s->planned;
	if (s->requested) {
		out->setting = mem_alloc(sizeof *out->setting);
		*out->setting = save_setting(s->requested);
	}
}

bool coord_settings_load(struct coord *c, const struct state *state)
{
	const struct state_settings_now *now = state->settings_now;
	struct setting *s;

	if (json_is_object(state->settings_config)) {
		json_decref(c->settings.base);
		c->settings.base = json_deep_copy(state->settings_config);
		c->cfg.config = c->settings.base;
		if (!decode_config(c->settings.base, &c->settings.base_conf))
			return false;
		apply_job_end(c, &c->settings.base_conf);
	}
	c->settings.base_number = state->settings_base;
	c->settings.newest = state->settings_made;
	c->settings.applied_step = -1;
	c->settings.planned = json_deep_copy(state->planned);
	for (uint64_t i = 0; i < state->nsettings; i++) {
		s = load_setting(&state->settings[i]);
		if (!s || !append_setting(c, s))
			return false;
	}
	c->settings.past = json_deep_copy(state->settings_past);
	if (now) {
		c->cfg.batch = now->batch < 0 ? c->cfg.batch : (uint64_t)now->batch;
		c->cfg.lockstep = now->lockstep;
		c->cfg.on_worker_loss = (enum coord_policy)now->on_worker_loss;
		c->cfg.loss_wait = now->loss_wait;
	}
	/* Its change is in the saved queue and will be proposed again. */
	c->settings.requested = state->setting ? load_setting(state->setting) : NULL;
	return !state->setting || c->settings.requested;
}
