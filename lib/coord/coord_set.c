#include "coord/coord_state.h"

#include "base/json.h"

/* Settings that change while the job runs: they go out with the view, and each worker
 * says with its heartbeat from which step on it goes by them. */

enum err_code coord_set(struct coord *c, json_t *config, const json_t *set, const char *what, const char *who,
    int64_t *number, struct err *e)
{
	if (c->phase > COORD_RUNNING)
		return err_set(e, ERR_NOTREADY, "the job is %s: nothing goes by its settings any more", coord_phase_name(c->phase));
	c->cfg.config = config;
	if (!c->settings)
		c->settings = json_object();
	json_object_update(c->settings, (json_t *)set);
	*number = ++c->nsettings;
	c->settings_step = -1;
	coord_event(c, "set", "%s, by %s", what, who);
	coord_changed(c);
	return ERR_OK;
}

enum err_code coord_pause(struct coord *c, bool pause, const char *who, int64_t now, struct err *e)
{
	if (c->phase != COORD_RUNNING || !c->cfg.has_job)
		return err_set(e, ERR_NOTREADY, "no job runs that could be %s", pause ? "paused" : "resumed");
	/* Who is a step ahead waits in the ring for those that rest. */
	if (pause && c->reduces)
		return err_set(e, ERR_UNSUPPORTED, "a job whose workers sum among themselves (via allreduce) cannot be paused");
	if (c->paused == pause)
		return ERR_OK;
	c->paused = pause;
	c->pauses += pause;
	c->paused_at = now;
	snprintf(c->paused_by, sizeof c->paused_by, "%s", who);
	coord_event(c, pause ? "paused" : "resumed", "the job is %s, by %s", pause ? "paused" : "resumed", who);
	coord_changed(c);
	return ERR_OK;
}

void settings_settle(struct coord *c)
{
	int64_t last = -1;

	if (c->settings_step >= 0 || !c->nsettings)
		return;
	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct member_worker *w = &c->worker[i];

		if (w->state != WORKER_ACTIVE)
			continue;
		if (json_int(w->stats, "settings", 0) < c->nsettings)
			return;
		if (json_int(w->stats, "settings_step", 0) > last)
			last = json_int(w->stats, "settings_step", 0);
	}
	if (last < 0)
		return;
	c->settings_step = last;
	coord_event(c, "settled", "all workers go by what was set, from step %lld on", (long long)last);
	coord_changed(c);
}
