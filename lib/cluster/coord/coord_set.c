/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "conf/conf_key.h"
#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/names.h"

/* Settings that change while the job runs. Those that the computation depends on are decided for a
 * step, like members (coord_change.c), and published in the view, because each step has its own.
 * The others take effect at once. */

/* The configuration of a list of changes; after an error the defaults, and *sound becomes false. */
static void find_conf(const json_t *base, const struct setting *change, size_t n, struct conf *out,
    bool *sound)
{
	struct err e = { 0 };

	conf_release(out);
	if (!conf_at(base, change, n, n ? (uint64_t)change[n - 1].step : 0, out, &e))
		return;
	conf_init(out);
	*sound = false;
}

/* Works out the configurations again from the one at `first` on: 0 is the base, i the one after i
 * changes. The last one is the present one. False: one of them is not valid. */
static bool find_confs(struct coord *c, unsigned first)
{
	struct coord_settings *s = &c->settings;
	bool sound = true;

	if (!first)
		find_conf(s->base, NULL, 0, &s->base_conf, &sound);
	for (unsigned i = first ? first - 1 : 0; i < s->nkept; i++)
		find_conf(s->base, s->kept, i + 1, &s->conf[i], &sound);
	c->conf = s->nkept ? &s->conf[s->nkept - 1] : &s->base_conf;
	json_decref(s->present);
	s->present = s->nkept ? conf_to_json(c->conf) : json_incref(s->base);
	c->cfg.config = s->present;
	return sound;
}

void coord_settings_begin(struct coord *c)
{
	c->settings.base = json_incref(c->cfg.config);
	find_confs(c, 0);
}

static void free_request(struct coord *c)
{
	if (c->settings.requested)
		setting_release(c->settings.requested);
	free(c->settings.requested);
	c->settings.requested = NULL;
}

void coord_settings_release(struct coord *c)
{
	for (unsigned i = 0; i < c->settings.nkept; i++) {
		setting_release(&c->settings.kept[i]);
		conf_release(&c->settings.conf[i]);
	}
	free_request(c);
	free(c->tables.request);
	json_decref(c->settings.base);
	json_decref(c->settings.present);
	conf_release(&c->settings.base_conf);
	json_decref(c->settings.planned);
	json_decref(c->settings.past);
}

/* Record who has set each key, and from which step on (NULL: at once). */
static void record_past_keys(struct coord *c, const json_t *set, const int64_t *step,
    const char *who)
{
	const char *key;
	json_t *v;

	if (!c->settings.past)
		c->settings.past = json_object();
	json_object_foreach((json_t *)(uintptr_t)set, key, v)
		json_object_set_new(c->settings.past, key,
		    json_pack("{s:o, s:s}", "step", step ? json_integer(*step) : json_null(), "who",
		        who));
}

static enum coord_policy policy_of(const struct conf *conf)
{
	return conf->on_worker_loss.policy == CONF_WAIT ? COORD_WAIT
	    : conf->on_worker_loss.policy == CONF_FAIL  ? COORD_FAIL
	                                                : COORD_SHRINK;
}

void coord_config_follow(struct coord_config *cfg, const struct conf *conf)
{
	cfg->batch = conf_step_examples(conf);
	cfg->lockstep = sync_is_lockstep(&conf->sync);
	cfg->on_worker_loss = policy_of(conf);
	cfg->loss_wait = conf->on_worker_loss.wait;
}

/* Uses the present configuration from now on. Epochs and steps are not live: only those that it has
 * are taken, and later changes repeat the first values. */
static void follow_present_conf(struct coord *c)
{
	const struct conf *conf = c->conf;
	bool waited = c->cfg.on_worker_loss == COORD_WAIT;

	coord_config_follow(&c->cfg, conf);
	c->settings.unwaited |= waited && c->cfg.on_worker_loss != COORD_WAIT;
	if (conf_given(conf, conf_key_find("job.epochs", NULL)))
		c->cfg.epochs = (uint64_t)conf->job.epochs;
	if (conf_given(conf, conf_key_find("job.steps", NULL)))
		c->cfg.steps = (uint64_t)conf->job.steps;
}

/* Makes the first kept change a part of the base. */
static void fold_first_setting(struct coord *c)
{
	struct coord_settings *s = &c->settings;
	struct setting *first = &s->kept[0];

	json_decref(s->base);
	s->base = conf_to_json(&s->conf[0]);
	conf_release(&s->base_conf);
	s->base_conf = s->conf[0];
	s->base_number = first->number;
	record_past_keys(c, first->set, &first->step, first->who);
	setting_release(first);
	s->nkept--;
	memmove(s->kept, s->kept + 1, s->nkept * sizeof *s->kept);
	memmove(s->conf, s->conf + 1, s->nkept * sizeof *s->conf);
}

/* Makes a change the newest one. Takes over what it owns. */
static void append_setting(struct coord *c, const struct setting *change)
{
	struct coord_settings *s = &c->settings;

	if (s->nkept == SETTINGS_KEPT)
		fold_first_setting(c);
	s->kept[s->nkept] = *change;
	s->conf[s->nkept++] = (struct conf){ 0 };
}

/* Puts the keys that take effect at once into the base, with the values of `now`, and removes them
 * from the changes: they depend on no step, so they have one value for all. */
static void set_at_once(struct coord *c, const struct conf *now)
{
	struct coord_settings *s = &c->settings;

	conf_copy_at_once(&s->base_conf, now, NULL);
	json_decref(s->base);
	s->base = conf_to_json(&s->base_conf);
	for (unsigned i = 0; i < s->nkept; i++) {
		json_t *taken = conf_take_at_once((json_t *)(uintptr_t)s->kept[i].set);

		record_past_keys(c, taken, &s->kept[i].step, s->kept[i].who);
		json_decref(taken);
	}
}

/* Tells the users of a change, "lr=0.01, by admin, from step 10 on". */
static void report_setting(struct coord *c, const struct setting *s, const char *when)
{
	char *what = setting_sentence(s->set);

	coord_event(c, EVENT_set, "%s, by %s, %s", what, s->who, when);
	free(what);
}

static void apply_setting_at_once(struct coord *c, const struct setting *s, const struct conf *now)
{
	set_at_once(c, now);
	record_past_keys(c, s->set, NULL, s->who);
	find_confs(c, 0);
	follow_present_conf(c);
	report_setting(c, s, "at once");
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
	    !(c->settings.nkept == SETTINGS_KEPT && (uint64_t)c->settings.kept[0].step > slowest);
}

/* Puts the change to the vote, or lets it take effect at once. now_conf: the configuration after
 * it. */
static void take_request(struct coord *c, const struct setting *s, bool at_once,
    const struct conf *now_conf)
{
	if (at_once) {
		apply_setting_at_once(c, s, now_conf);
		coord_ticket_decided(c, 0);
		return;
	}
	c->settings.requested = mem_alloc(sizeof *c->settings.requested);
	*c->settings.requested = setting_copy(s);
	coord_change_request(c, CHANGE_SET, 0, WORKER_EMPTY);
}

enum err_code coord_request_settings(struct coord *c, const struct setting *s, int64_t now,
    uint64_t *ticket, struct err *e)
{
	bool at_once = conf_holds_at_once(s->set);
	struct conf conf;
	enum err_code rc;

	if (!coord_resume_is_checked(c))
		return err_set(e, ERR_NOTREADY,
		    "the checkpoint is being verified: try again once the job is running");
	if (c->phase == PHASE_FORMING && !at_once)
		return err_set(e, ERR_NOTREADY,
		    "the job is still forming: ps-ctl wait --for ready, then set");
	if (c->phase > PHASE_RUNNING)
		return err_set(e, ERR_NOTREADY,
		    "the job is %s: its settings no longer have an effect",
		    coord_phase_name(c->phase));
	if (coord_is_deciding(c) || (!at_once && !coord_settings_have_room(c)))
		return err_set(e, ERR_EXISTS,
		    coord_is_deciding(c) ? "another change is being decided"
		                         : "there are too many planned changes");
	rc = conf_at(c->settings.present, s, 1, CONF_NEWEST, &conf, e);
	if (rc)
		return rc;
	*ticket = ++c->settings.tickets;
	take_request(c, s, at_once, &conf);
	conf_release(&conf);
	coord_progress(c, now);
	return ERR_OK;
}

/* Makes a change that has been decided the present settings, from its step on. Takes over what it
 * owns. False: it makes no valid configuration. */
static bool apply_decided_setting(struct coord *c, struct setting *s)
{
	bool sound;

	s->number = ++c->settings.newest;
	c->settings.applied_step = -1;
	append_setting(c, s);
	sound = find_confs(c, c->settings.nkept);
	follow_present_conf(c);
	return sound;
}

void coord_apply_settings_before_start(struct coord *c, const struct setting *from)
{
	struct setting s = setting_copy(from);

	s.step = 0;
	apply_decided_setting(c, &s);
	report_setting(c, &s, "to begin with");
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
	return c->settings.requested ? (uint64_t)c->settings.requested->step : 0;
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
	free_request(c);
	free(c->tables.request);
	c->tables.request = NULL;
}

void coord_setting_refused(struct coord *c, unsigned server, const char *why)
{
	char said[300], *what = setting_sentence(c->settings.requested->set);

	snprintf(said, sizeof said, "server-%u has no memory for it: %.220s", server, why);
	coord_event(c, EVENT_set_refused, "%s, by %s: %s", what, c->settings.requested->who, said);
	free(what);
	coord_ticket_refused(c, said);
	free_request(c);
	coord_changed(c);
}

/* The data is leased from `step` on, if the mode now is ssp or asp: begin where bsp is in the data
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
	char when[48];

	c->settings.requested = NULL;
	if (!s)
		return;
	s->step = (int64_t)step;
	apply_decided_setting(c, s);
	coord_ticket_decided(c, step);
	begin_leases_at(c, step);
	coord_members_restart(c, step);
	snprintf(when, sizeof when, "from step %llu on", (unsigned long long)step);
	report_setting(c, s, when);
	free(s);
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
		last = c->settings.kept[c->settings.nkept - 1].step;
	c->settings.applied_step = last;
	coord_event(c, EVENT_settled, "all workers use the new settings from step %lld on",
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
	c->state_rev++;
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
	return c->settings.present;
}

const struct conf *coord_present_conf(const struct coord *c)
{
	return c->conf;
}

static json_t *setting_to_row(const struct setting *s)
{
	char *what = setting_sentence(s->set);
	json_t *row = json_pack("{s:I, s:I, s:O, s:s, s:s}", "step", (json_int_t)s->step, "number",
	    (json_int_t)s->number, "set", s->set, "what", what, "who", s->who);

	free(what);
	return row;
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
		json_array_append_new(list, setting_to_json(&c->settings.kept[i]));
	json_object_set(v, "config", c->settings.base);
	json_object_set_new(v, "settings_base", json_integer(c->settings.base_number));
	json_object_set_new(v, "changes", list);
	json_object_set_new(v, "settings", json_integer(c->settings.newest));
	json_object_set_new(v, "now", select_stepless_keys(c->settings.present));
}

json_t *coord_settings_past(const struct coord *c)
{
	return json_deep_copy(c->settings.past);
}

json_t *coord_settings(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->settings.nkept; i++)
		json_array_append_new(list, setting_to_row(&c->settings.kept[i]));
	return list;
}

/* The configuration in force at a step. */
static const struct conf *conf_in_force(const struct coord *c, uint64_t step)
{
	const struct conf *conf = &c->settings.base_conf;

	for (unsigned i = 0; i < c->settings.nkept; i++)
		if ((uint64_t)c->settings.kept[i].step <= step)
			conf = &c->settings.conf[i];
	return conf;
}

const struct conf *coord_conf_at(const struct coord *c, uint64_t step)
{
	/* Without lockstep each worker counts its own steps: the newest settings are in force. */
	return conf_in_force(c, c->cfg.lockstep ? step : CONF_NEWEST);
}

json_t *coord_config_at(const struct coord *c, uint64_t step)
{
	const struct conf *conf = coord_conf_at(c, step);

	return conf == &c->settings.base_conf ? json_incref(c->settings.base) : conf_to_json(conf);
}

struct sync_mode coord_mode_at(const struct coord *c, uint64_t step)
{
	return conf_in_force(c, step)->sync;
}

void coord_find_unclosed_steps(const struct coord *c, uint64_t step, uint64_t *from,
    uint64_t *until)
{
	bool sums = sync_sums_steps(&c->settings.base_conf.sync);

	*from = 0;
	*until = SYNC_NEVER;
	for (unsigned i = 0; i < c->settings.nkept; i++) {
		uint64_t from_step = (uint64_t)c->settings.kept[i].step;
		bool summed = sums;

		/* Settings that others replace at the same step hold at none. */
		if (i + 1 < c->settings.nkept &&
		    (uint64_t)c->settings.kept[i + 1].step == from_step)
			continue;
		sums = sync_sums_steps(&c->settings.conf[i].sync);
		if (from_step <= step && summed && !sums)
			*from = from_step;
		else if (from_step > step && sums && *until == SYNC_NEVER)
			*until = from_step;
	}
}

static struct state_setting save_setting(const struct setting *s)
{
	return (struct state_setting){ .step = s->step,
		.number = s->number,
		.set = s->set,
		.who = s->who };
}

/* Makes a copy of a saved change. False: it is malformed. */
static bool load_setting(const struct state_setting *saved, struct setting *out)
{
	if (!json_is_object(saved->set))
		return false;
	*out = setting_copy(&(struct setting){
	    .step = saved->at > saved->step ? saved->at : saved->step,
	    .number = saved->number,
	    .set = saved->set,
	    .who = saved->who,
	});
	return true;
}

/* An earlier version saved with each change the configuration after it. Only the last of these
 * had the values that were set at once since then. */
static bool load_at_once(struct coord *c, const struct state *state)
{
	const json_t *config = state->nsettings ? state->settings[state->nsettings - 1].config
	                                        : NULL;
	struct conf conf;
	struct err e = { 0 };

	if (!config)
		return true;
	if (conf_from_json(config, &conf, &e))
		return false;
	set_at_once(c, &conf);
	conf_release(&conf);
	return find_confs(c, 0);
}

static bool load_settings(struct coord *c, const struct state *state)
{
	struct setting s;

	if (json_is_object(state->settings_config)) {
		json_decref(c->settings.base);
		c->settings.base = json_deep_copy(state->settings_config);
	}
	for (uint64_t i = 0; i < state->nsettings; i++) {
		if (!load_setting(&state->settings[i], &s))
			return false;
		append_setting(c, &s);
		/* The next one may make this one a part of the base. */
		if (!find_confs(c, i ? c->settings.nkept : 0))
			return false;
	}
	return (state->nsettings || find_confs(c, 0)) && load_at_once(c, state);
}

void coord_settings_save(const struct coord *c, struct state *out)
{
	const struct coord_settings *s = &c->settings;

	out->nsettings = s->nkept;
	out->settings = mem_array(s->nkept, sizeof *out->settings);
	for (unsigned i = 0; i < s->nkept; i++)
		out->settings[i] = save_setting(&s->kept[i]);
	out->settings_config = s->base;
	out->settings_base = s->base_number;
	out->settings_made = s->newest;
	out->settings_past = s->past;
	out->planned = s->planned;
	if (s->requested) {
		out->setting = mem_alloc(sizeof *out->setting);
		*out->setting = save_setting(s->requested);
	}
}

bool coord_settings_load(struct coord *c, const struct state *state)
{
	struct setting s;

	c->settings.base_number = state->settings_base;
	c->settings.newest = state->settings_made;
	c->settings.applied_step = -1;
	c->settings.planned = json_deep_copy(state->planned);
	if (!load_settings(c, state))
		return false;
	follow_present_conf(c);
	json_decref(c->settings.past);
	c->settings.past = json_deep_copy(state->settings_past);
	/* Its change is in the saved queue and will be proposed again. */
	if (state->setting) {
		if (!load_setting(state->setting, &s))
			return false;
		c->settings.requested = mem_alloc(sizeof s);
		*c->settings.requested = s;
	}
	return true;
}
