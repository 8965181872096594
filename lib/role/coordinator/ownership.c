/* SPDX-License-Identifier: ISC */
#include "coordinator/ownership.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/coordinator.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/thread.h"
#include "msg/why_row.h"
#include "msg/words.h"
#include "state/state_store.h"

/* How often it looks for processes that stand by. */
#define LOOK_EVERY NSEC_PER_SEC
/* Failures that last less than this are not reported. */
#define REPORT_AFTER NSEC_PER_SEC

bool ownership_is_aside(struct coordinator *coordinator, int64_t now)
{
	struct coordinator_ownership *o = &coordinator->ownership;
	struct server *s = coordinator->server;

	mutex_assert_held(&coordinator->lock);
	if (o->aside || !o->started || s->cfg.role ||
	    now <= atomic_load(&s->state_store->owned_until))
		return o->aside;
	o->aside = true;
	log_warn(s->cfg.log,
	    "another coordinator may have taken over, as this one could not reach %s in time (%s): it "
	    "closes all sessions until it can",
	    s->state_store->ops->where(s->state_store), o->why.code ? o->why.msg : "no answer");
	io_threads_set_aside(s);
	return true;
}

/* Notes the outcome of a beat. */
static void take_beat(struct coordinator *coordinator, enum err_code rc, const struct err *e)
{
	struct coordinator_ownership *o = &coordinator->ownership;
	struct server *s = coordinator->server;
	int64_t now = clock_now();

	mutex_assert_held(&coordinator->lock);
	if (rc == ERR_FENCED) {
		coordinator->file.fenced = true;
		server_end_overtaken(s, e);
	} else if (rc == ERR_CLOSED || (!rc && o->aside)) {
		coordinator->file.fenced = true;
		log_info(s->cfg.log, "%s: this coordinator begins again, from the state in %s",
		    rc ? e->msg : "the state can be reached again",
		    s->state_store->ops->where(s->state_store));
		server_end_again(s, NULL);
	} else if (rc) {
		o->failing_since = o->failing_since ? o->failing_since : now;
		if (!o->reported && now - o->failing_since > REPORT_AFTER) {
			o->reported = true;
			log_warn(s->cfg.log, "%s", e->msg);
		}
		o->why = *e;
	} else {
		if (o->reported)
			log_info(s->cfg.log, "%s answers again",
			    s->state_store->ops->where(s->state_store));
		o->reported = false;
		o->failing_since = 0;
		o->why = (struct err){ 0 };
	}
}

/* Removes the entry that this process wrote while it stood by, which may still be there. */
static void remove_self(const struct coordinator *coordinator, struct state_standbys *found)
{
	size_t n = 0;

	for (size_t i = 0; i < found->n; i++)
		if (strcmp(found->at[i].data, coordinator->server->advertised) != 0)
			found->at[n++] = found->at[i];
	memset(&found->at[n], 0, (found->n - n) * sizeof *found->at);
	found->n = n;
}

/* Members learn by a new view of those that stand by. */
static void take_standbys(struct coordinator *coordinator, struct state_standbys *found)
{
	struct state_standbys *known = &coordinator->ownership.standbys;

	mutex_assert_held(&coordinator->lock);
	remove_self(coordinator, found);
	if (memcmp(known, found, sizeof *known) == 0)
		return;
	for (size_t i = 0; i < found->n; i++)
		if (i >= known->n || strcmp(known->at[i].data, found->at[i].data) != 0)
			log_info(coordinator->server->cfg.log, "a coordinator stands by at %s",
			    found->at[i].data);
	*known = *found;
	coord_publish_view(coordinator->coord);
}

/* One beat; *look_at: when to look for standbys again. */
static void beat(struct coordinator *coordinator, int64_t *look_at)
{
	struct state_store *store = coordinator->server->state_store;
	struct state_standbys standbys;
	bool listed = false;
	struct err e = { 0 };
	enum err_code rc = store->ops->beat(store, &e);

	if (!rc && clock_now() >= *look_at) {
		/* Lists are compared as memory. */
		memset(&standbys, 0, sizeof standbys);
		listed = store->ops->list_standbys(store, &standbys);
		*look_at = clock_now() + LOOK_EVERY;
	}
	coordinator_lock(coordinator);
	take_beat(coordinator, rc, &e);
	if (listed)
		take_standbys(coordinator, &standbys);
	coordinator_commit_unlock(coordinator);
}

/* The thread: a beat every STATE_BEAT. */
static void *run_beats(void *ctx)
{
	struct coordinator *coordinator = ctx;
	struct coordinator_ownership *o = &coordinator->ownership;
	int64_t look_at = 0, next = clock_now();

	coordinator_lock(coordinator);
	while (!o->stop && !coordinator->file.fenced) {
		struct timespec ts = { next / NSEC_PER_SEC, next % NSEC_PER_SEC };

		if (clock_now() < next) {
			mutex_wait_until(&o->woken, &coordinator->lock, &ts);
			continue;
		}
		coordinator_unlock(coordinator);
		next = clock_now() + STATE_BEAT;
		beat(coordinator, &look_at);
		coordinator_lock(coordinator);
	}
	coordinator_unlock(coordinator);
	return NULL;
}

enum err_code ownership_start(struct coordinator *coordinator, struct err *e)
{
	struct coordinator_ownership *o = &coordinator->ownership;
	enum err_code rc;

	if (!coordinator->server->state_store)
		return ERR_OK;
	rc = thread_start(&o->thread, run_beats, coordinator, e);
	coordinator_lock(coordinator);
	o->started = !rc;
	coordinator_unlock(coordinator);
	return rc;
}

void ownership_stop(struct coordinator *coordinator)
{
	struct coordinator_ownership *o = &coordinator->ownership;
	bool started;

	coordinator_lock(coordinator);
	started = o->started;
	o->stop = true;
	pthread_cond_signal(&o->woken);
	coordinator_unlock(coordinator);
	if (started)
		pthread_join(o->thread, NULL);
}

char *ownership_addresses(const struct coordinator *coordinator, bool http)
{
	const struct state_standbys *standbys = &coordinator->ownership.standbys;
	char *list = mem_strdup(!http ? coordinator->server->advertised
	        : coordinator->http   ? http_server_address(coordinator->http)
	                              : "");

	mutex_assert_held(&coordinator->lock);
	for (size_t i = 0; i < standbys->n; i++) {
		const char *more = http ? standbys->at[i].http : standbys->at[i].data;
		char *longer = mem_printf("%s%s%s", list, *list && *more ? "," : "", more);

		free(list);
		list = longer;
	}
	return list;
}

void ownership_add_status(const struct coordinator *coordinator, json_t *status)
{
	const struct state_standbys *standbys = &coordinator->ownership.standbys;
	json_t *list;

	mutex_assert_held(&coordinator->lock);
	if (!status || !standbys->n)
		return;
	list = json_array();
	for (size_t i = 0; i < standbys->n; i++)
		json_array_append_new(list, state_standby_encode(&standbys->at[i]));
	json_object_set_new(status, "standbys", list);
}

void ownership_add_why(const struct coordinator *coordinator, json_t *why, int64_t now)
{
	const struct coordinator_ownership *o = &coordinator->ownership;
	char *what;

	mutex_assert_held(&coordinator->lock);
	if (!why || !o->failing_since || (now - o->failing_since < REPORT_AFTER && !o->aside))
		return;
	what = mem_printf("cannot reach the store of its state (%s)%s", o->why.msg,
	    o->aside ? ", and lets no member in, because another coordinator may have taken over"
	             : "; nothing in the cluster can change until it can");
	json_array_insert_new(why, 0,
	    why_row_encode(
	        &(const struct why_row){ .id = "coordinator",
	            .whom = "its state",
	            .since_seconds = (double)(now - o->failing_since) / (double)NSEC_PER_SEC,
	            .code = why_code_name(WHY_STATE),
	            .because = what,
	            .remedy = "start the store again, or repair the way to it; training continues "
	                      "until a process is lost" },
	        -1));
	free(what);
}
