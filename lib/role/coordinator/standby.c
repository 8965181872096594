/* SPDX-License-Identifier: ISC */
#include "coordinator/standby.h"

#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "coord/coord.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "msg/state.h"
#include "socket/listen_address.h"
#include "state/state_store.h"

/* A coordinator that waits, and what it waits with. */
struct standby_wait {
	struct server_config *cfg;
	struct state_store *store;
	struct state_standby self;
	bool answered; /* the store has answered once */
	bool reported; /* that the store cannot be reached */
};

/* ---- addresses ---- */

/* The address of this host that others use for a socket that is bound to a wildcard. */
static enum err_code advertise(const struct server_config *cfg, const char *want, const char *bound,
    char out[static NET_TEXT], struct err *e)
{
	const struct choice choice = { .iface = cfg->iface ? cfg->iface : "*" };
	char host[NET_TEXT];
	const char *why;
	enum err_code rc = ERR_OK;

	if (!want && listen_address_is_any(bound) &&
	    !(rc = listen_address_choose(&choice, host, &why, e)))
		listen_address_with_port(host, bound, out);
	else
		listen_address_advertise(want, bound, out);
	return rc;
}

static enum err_code bind_data(struct standby_wait *w, struct err *e)
{
	const struct server_config *cfg = w->cfg;
	const struct choice choice = { cfg->listen, cfg->iface, NULL, cfg->conf->listen };
	char address[NET_TEXT], bound[NET_TEXT];
	const char *why;
	bool kept = cfg->before_data && !net_reserve(cfg->before_data, &w->cfg->data_fd, bound, e);
	enum err_code rc = kept ? ERR_OK : listen_address_choose(&choice, address, &why, e);

	if (!rc && !kept)
		rc = net_reserve(address, &w->cfg->data_fd, bound, e);
	return rc ? rc : advertise(cfg, cfg->advertise, bound, w->self.data, e);
}

/* The configuration may have the address of the host that it was written for: then it is that of the data
 * plane, with the same port, if it is free. */
static enum err_code bind_http(struct standby_wait *w, struct err *e)
{
	char address[NET_TEXT], bound[NET_TEXT];
	bool kept = w->cfg->before_http &&
	    !net_reserve(w->cfg->before_http, &w->cfg->http_fd, bound, e);
	enum err_code rc = kept ? ERR_OK
	                        : net_reserve(w->cfg->conf->http, &w->cfg->http_fd, bound, e);

	if (rc && e->cause == CAUSE_ADDRESS) {
		listen_address_with_port(w->self.data, w->cfg->conf->http, address);
		rc = net_reserve(address, &w->cfg->http_fd, bound, e);
	}
	if (rc && e->cause == CAUSE_PORT_TAKEN) {
		listen_address_with_port(w->self.data, ":0", address);
		rc = net_reserve(address, &w->cfg->http_fd, bound, e);
	}
	return rc ? rc : advertise(w->cfg, NULL, bound, w->self.http, e);
}

/* ---- waiting ---- */

/* Has the cluster of this state ended for good? Nobody takes over then. */
static enum err_code has_ended(struct standby_wait *w, bool *ended, struct err *e)
{
	struct state_values values = { 0 };
	const struct buf *text = &values.part[STATE_PART_membership];
	json_t *document = NULL;
	struct state state;
	enum err_code rc = w->store->ops->read(w->store, 1u << STATE_PART_membership, &values, e);

	*ended = false;
	if (!rc && text->len) {
		document = json_parse((const char *)text->data, text->len, STATE_PART_MAX, e);
		rc = document ? ERR_OK : e->code;
	}
	if (document) {
		state_decode(document, &state, NULL);
		*ended = state.ended;
		state_release(&state);
	}
	json_decref(document);
	state_values_release(&values);
	return rc;
}

/* Looks once. *free: this process is to take over. *ended: the cluster has ended. */
static enum err_code look_at_store(struct standby_wait *w, bool *free, bool *ended, struct err *e)
{
	enum err_code rc = w->store->ops->stand_by(w->store, &w->self, free, e);

	*ended = false;
	if (!rc && *free)
		rc = has_ended(w, ended, e);
	return rc;
}

/* Says once that the store does not answer, and once that it does again. */
static void report(struct standby_wait *w, enum err_code rc, const struct err *e)
{
	if (rc && !w->reported)
		log_warn(w->cfg->log, "waiting for %s: %s", w->store->ops->where(w->store), e->msg);
	else if (!rc && w->reported)
		log_info(w->cfg->log, "%s answers again", w->store->ops->where(w->store));
	w->reported = rc != ERR_OK;
}

static bool is_told_to_end(int signals)
{
	struct signalfd_siginfo si;

	return read(signals, &si, sizeof si) == sizeof si &&
	    (si.ssi_signo == SIGTERM || si.ssi_signo == SIGINT);
}

/* Does a store that has never answered refuse this process? One that has answered once may do so
 * again, as after its users have been mended. */
static bool is_refused(const struct standby_wait *w, enum err_code rc)
{
	return !w->answered && rc && rc != ERR_IO;
}

static enum err_code wait_for_turn(struct standby_wait *w, int signals, bool *end, struct err *e)
{
	struct pollfd p = { signals, POLLIN, 0 };
	bool free = false;

	*end = false;
	while (!free && !*end) {
		int64_t next = clock_now() + STATE_BEAT;
		enum err_code rc = look_at_store(w, &free, end, e);

		if (is_refused(w, rc))
			return rc;
		w->answered |= !rc;
		report(w, rc, e);
		free &= !rc;
		if (*end)
			log_info(w->cfg->log, "the cluster has ended; this standby ends, too");
		else if (!free && poll(&p, 1, clock_poll_timeout(next - clock_now())) > 0)
			*end = is_told_to_end(signals);
	}
	return ERR_OK;
}

/* This process will not be the coordinator. */
static void release_addresses(struct server_config *cfg)
{
	if (cfg->data_fd > 0)
		close(cfg->data_fd);
	if (cfg->http_fd > 0)
		close(cfg->http_fd);
	cfg->data_fd = cfg->http_fd = 0;
}

/* run_dir: NULL: none. */
static void describe_self(struct state_standby *self, const char *run_dir)
{
	char *path = run_dir ? path_absolute(run_dir) : NULL;

	gethostname(self->host, sizeof self->host - 1);
	snprintf(self->run_dir, sizeof self->run_dir, "%s", path ? path : "");
	free(path);
}

enum err_code standby_wait(struct server_config *cfg, int signals, bool *end, struct err *e)
{
	struct standby_wait w = { .cfg = cfg };
	struct state_store_config store = { .run_dir = cfg->id->run_dir,
		.url = cfg->state_url,
		.log = cfg->log };
	enum err_code rc;

	randombytes_buf(&store.incarnation, sizeof store.incarnation);
	store.incarnation >>= 1;
	w.store = state_store_open(&store);
	if (!w.store)
		return err_set(e, ERR_CONFIG,
		    "--standby requires a run directory or the key state");
	rc = bind_data(&w, e);
	if (!rc)
		rc = bind_http(&w, e);
	if (!rc) {
		describe_self(&w.self, cfg->id->run_dir);
		log_info(cfg->log, "standing by at %s for the coordinator of %s", w.self.data,
		    w.store->ops->where(w.store));
		rc = wait_for_turn(&w, signals, end, e);
	}
	if (rc || *end)
		release_addresses(cfg);
	else
		log_info(cfg->log, "no coordinator is alive: this one takes over");
	state_store_close(w.store);
	if (!rc)
		*e = (struct err){ 0 };
	return rc;
}
