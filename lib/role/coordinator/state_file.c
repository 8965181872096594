/* SPDX-License-Identifier: ISC */
#include "coordinator/state_file.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#include "coordinator/lease_log.h"
#include "coordinator/owner_file.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "rundir/rundir.h"

#define STATE_MAX (64u << 20)
/* A full disk may have room later. */
#define RETRY (200 * NSEC_PER_MSEC)

/* ---- the previous coordinator's state ---- */

/* Every coordinator makes this file when it begins and never removes it. */
static bool coordinator_was_here(const struct server *s)
{
	char *path = rundir_path(s->cfg.id->run_dir, "metrics.jsonl");
	bool is = access(path, F_OK) == 0;

	free(path);
	return is;
}

/* Without an option the state decides: a run that had begun is recovered, and one that had not
 * begins as the previous coordinator was told to. */
static enum err_code decide_recovery(struct server *s, const char *path, struct err *e)
{
	if (!s->state && coordinator_was_here(s) && !s->cfg.resume)
		return err_set(e, ERR_CONFIG,
		    "%s is gone, but a coordinator was here: bring it back, go on from the newest checkpoint "
		    "with --resume auto, or begin anew with --force-new-cluster (servers and workers of before are turned away)",
		    path);
	if (!s->state || s->cfg.resume || !coord_state_has_model(s->state))
		return ERR_OK;
	if (s->cfg.store && !coord_state_is_running(s->state))
		return ERR_OK;
	if (s->cfg.store)
		return err_set(e, ERR_CONFIG,
		    "the coordinator that ended here was a store, too, and what it held is gone: "
		    "--resume auto goes on from the newest checkpoint, --force-new-cluster begins anew");
	s->recover = true;
	return ERR_OK;
}

static enum err_code read_state(struct server *s, struct err *e)
{
	char *path = rundir_path(s->cfg.id->run_dir, "state.json");
	enum err_code rc = ERR_OK;

	json_decref(s->state);
	s->state = NULL;
	s->recover = false;
	if (access(path, F_OK) == 0) {
		s->state = json_parse_file(path, STATE_MAX, e);
		/* When resuming from a checkpoint, only the epoch of the state is needed. */
		if (!s->state && !s->cfg.force_new && !s->cfg.resume)
			rc = err_prefix(e,
			    "the coordinator's state is damaged: ps-ctl run FILE --resume auto (or ps-serve --resume auto) goes on "
			    "from the newest checkpoint, ps-serve --force-new-cluster begins anew");
		else if (!s->state)
			*e = (struct err){ 0 };
	}
	if (!rc && !s->cfg.force_new)
		rc = decide_recovery(s, path, e);
	free(path);
	return rc;
}

enum err_code state_file_read(struct server *s, struct err *e)
{
	enum err_code rc;

	if (!s->cfg.coordinator || !s->cfg.id->run_dir)
		return ERR_OK;
	rc = owner_file_check_free(s, e);
	/* A coordinator that cannot go on must not take over from one on another host. */
	if (!rc)
		rc = read_state(s, e);
	if (!rc)
		rc = owner_file_take(s, e);
	/* Read again: until owner_file_take, the previous owner may have written it. */
	if (!rc)
		rc = read_state(s, e);
	return rc;
}

/* ---- this coordinator's state ---- */

void state_file_begin_life(struct host *h)
{
	const char *before = h->server->recover ? json_str(h->server->state, "began", "") : "";
	uint64_t fresh;

	randombytes_buf(&fresh, sizeof fresh);
	if (*before)
		snprintf(h->began, sizeof h->began, "%s", before);
	else
		snprintf(h->began, sizeof h->began, "%016" PRIx64, fresh);
}

/* Until the HTTP server listens, keep the previous coordinator's address. */
static const char *http_address_to_save(const struct host *h)
{
	if (h->http)
		return http_server_address(h->http);
	return h->server->recover ? json_str(h->server->state, "http", "") : "";
}

static enum err_code verify_owner(void *ctx, struct err *e)
{
	return owner_file_verify(ctx, e);
}

static enum err_code write_state(struct host *h, struct err *e)
{
	json_t *state = coord_save(h->coord);
	struct file_new f;
	enum err_code rc;
	char *path = rundir_path(h->server->cfg.id->run_dir, "state.json"), *text;

	/* Processes that were given these addresses look for the coordinator there. */
	json_object_set_new(state, "listen", json_string(h->server->address));
	json_object_set_new(state, "http", json_string(http_address_to_save(h)));
	json_object_set_new(state, "began", json_string(h->began));
	if (h->leaselog)
		json_object_set_new(state, "lease_log", json_string(lease_log_name(h->leaselog)));
	text = json_text(state);
	rc = FAIL_ERROR("state_write", e);
	if (!rc)
		rc = file_new_open(path, 0600, &f, e);
	if (!rc) {
		f.may_appear = verify_owner;
		f.ctx = h->server;
		rc = file_new_close(&f, file_write_all(f.fd, text, strlen(text), e), e);
	}
	free(text);
	free(path);
	json_decref(state);
	return rc;
}

void state_file_report_failure(struct host *h, const struct err *e, int64_t now)
{
	bool store = h->server->cfg.store;

	if (e->code == ERR_FENCED && !h->fenced) {
		h->fenced = true;
		log_error(h->server->cfg.log, "%s", e->msg);
		server_end(h->server, e);
	}
	if (!h->unsaved_since) {
		h->unsaved_since = now;
		if (!h->fenced)
			log_warn(h->server->cfg.log, "%s: %s", e->msg,
			    store ? "the cluster goes on without"
			          : "until it can be written nothing changes in the cluster");
	}
	h->save_again = now + RETRY;
	/* The state of a coordinator in a store's process is useless without the store, so do
	 * not fail the job. */
	if (!store && now - h->unsaved_since > h->cfg.deadline)
		coord_fail(h->coord, e->msg, now);
}

/* Record up to which stamps answers may be sent, and wake I/O threads that hold such answers. */
static void allow_announcements(struct host *h, uint64_t stamp, uint64_t leases)
{
	bool waited = atomic_load(&h->tellable) < stamp && h->unsaved_since;

	atomic_store(&h->tellable, stamp);
	if (atomic_load(&h->durable_leases) < leases) {
		atomic_store(&h->durable_leases, leases);
		waited = true;
	}
	if (waited && atomic_load(&h->server->io_threads_run))
		io_threads_wake(h->server);
}

void state_file_note_leases(struct host *h, uint64_t leases)
{
	allow_announcements(h, atomic_load(&h->tellable), leases);
}

bool state_file(struct host *h, int64_t now)
{
	uint64_t stamp = coord_stamp(h->coord), leases = coord_leases(h->coord);
	struct err e = { 0 };

	if (h->fenced)
		return false;
	/* Until the partitions are placed there is nothing to recover, so the first state.json
	 * is enough. Leases are durable by their log. */
	if (!h->server->cfg.id->run_dir ||
	    ((stamp == h->saved || (h->saved && !coord_is_placed(h->coord))) &&
	        !lease_log_is_long(h->leaselog))) {
		allow_announcements(h, stamp, h->leaselog ? 0 : leases);
		return true;
	}
	if (now < h->save_again)
		return false;
	FAIL_POINT("state_before");
	if (write_state(h, &e) == ERR_OK) {
		FAIL_POINT("state_after");
		h->saved = stamp;
		h->state_file_leases = leases;
		if (h->leaselog)
			lease_log_saved(h->leaselog, leases);
		allow_announcements(h, stamp, leases);
		h->unsaved_since = h->save_again = 0;
		return true;
	}
	state_file_report_failure(h, &e, now);
	/* The state of a coordinator in a store's process is useless without the store, so
	 * answers do not wait for it. */
	if (!h->fenced && (h->server->cfg.store || coord_phase(h->coord) == COORD_FAILED)) {
		allow_announcements(h, stamp, leases);
		return true;
	}
	return false;
}
