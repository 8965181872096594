/* SPDX-License-Identifier: ISC */
#include "coordinator/state_file.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#include "coordinator/description_store.h"
#include "coordinator/lease_log.h"
#include "coordinator/owner_file.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/signals.h"
#include "core/thread.h"
#include "msg/large_description.h"
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

/* Without an option the state decides: a run that had begun is recovered; a run that had not begun
 * starts with the options of the previous coordinator. */
static enum err_code decide_recovery(struct server *s, const char *path, struct err *e)
{
	if (!s->state && coordinator_was_here(s) && !s->cfg.resume)
		return err_set(e, ERR_CONFIG,
		    "%s is missing, but a coordinator has run here: restore it, resume from the "
		    "newest checkpoint with --resume auto, or begin a new cluster with "
		    "--force-new-cluster (which refuses the previous servers and workers)",
		    path);
	if (!s->state || s->cfg.resume || !coord_state_has_model(s->state))
		return ERR_OK;
	if (s->cfg.role && !coord_state_is_running(s->state))
		return ERR_OK;
	if (s->cfg.role)
		return err_set(e, ERR_CONFIG,
		    "the coordinator that ended here was also a store, and its partitions are "
		    "lost: --resume auto resumes from the newest checkpoint, --force-new-cluster "
		    "begins a new cluster");
	s->recover = true;
	return ERR_OK;
}

/* Reads s->state, which becomes NULL after an error. */
static enum err_code decode_state_file(struct server *s, const char *path, struct err *e)
{
	enum err_code rc;

	s->state_document = json_parse_file(path, STATE_MAX, e);
	if (!s->state_document)
		return e->code;
	rc = description_store_read(s->cfg.id->run_dir, s->state_document, &s->description, e);
	if (rc)
		return rc;
	s->state = mem_alloc(sizeof *s->state);
	rc = state_decode(s->state_document, s->state, e);
	if (!rc)
		return ERR_OK;
	err_prefix(e, "%s", path);
	free(s->state);
	s->state = NULL;
	return rc;
}

static enum err_code read_state(struct server *s, struct err *e)
{
	char *path = rundir_path(s->cfg.id->run_dir, "state.json");
	enum err_code rc = ERR_OK;

	state_free(s->state);
	json_decref(s->state_document);
	large_description_release(s->description);
	s->state = NULL;
	s->state_document = NULL;
	s->description = NULL;
	s->recover = false;
	if (access(path, F_OK) == 0)
		rc = decode_state_file(s, path, e);
	/* When resuming from a checkpoint, only the epoch of the state is needed. */
	if (rc && (s->cfg.force_new || s->cfg.resume)) {
		*e = (struct err){ 0 };
		rc = ERR_OK;
	} else if (rc) {
		char *file = rundir_cluster_file(s->cfg.id->run_dir);

		err_prefix(e,
		    "the coordinator's state is damaged: ps-ctl run %s --resume auto (or "
		    "ps-serve --resume auto) resumes from the newest checkpoint, ps-serve "
		    "--force-new-cluster begins a new cluster",
		    file ? file : "FILE");
		free(file);
	}
	if (!rc && !s->cfg.force_new)
		rc = decide_recovery(s, path, e);
	free(path);
	return rc;
}

enum err_code state_file_read(struct server *s, struct err *e)
{
	enum err_code rc;
	int64_t since = 0;

	if (!s->cfg.id->run_dir)
		return ERR_OK;
	rc = owner_file_check_free(s, e);
	/* A coordinator that cannot go on must not take over from one on another host. */
	if (!rc)
		rc = read_state(s, e);
	if (!rc)
		do
			rc = owner_file_take(s, e);
		while (rc && server_wait_for_room(s, &since, e));
	/* Read again: until owner_file_take, the previous owner may have written it. */
	if (!rc)
		rc = read_state(s, e);
	return rc;
}

/* ---- this coordinator's state ---- */

void state_file_begin_life(struct coordinator *coordinator)
{
	const char *before = coordinator->server->recover ? coordinator->server->state->began
	                                                  : NULL;
	uint64_t fresh;

	randombytes_buf(&fresh, sizeof fresh);
	if (before && *before)
		snprintf(coordinator->file.began, sizeof coordinator->file.began, "%s", before);
	else
		snprintf(coordinator->file.began, sizeof coordinator->file.began, "%016" PRIx64,
		    fresh);
}

/* Until the HTTP server listens, keep the previous coordinator's address. */
static const char *http_address_to_save(const struct coordinator *coordinator)
{
	if (coordinator->http)
		return http_server_address(coordinator->http);
	return coordinator->server->recover && coordinator->server->state->http
	    ? coordinator->server->state->http
	    : "";
}

static enum err_code verify_owner(void *ctx, struct err *e)
{
	return owner_file_verify(ctx, e);
}

/* Can the next coordinator read this document? A state that it refuses must not replace one that it reads. */
static enum err_code check_state(const json_t *document, const char *text, struct err *e)
{
	struct state state;
	struct err why = { 0 };
	enum err_code rc;

	if (strlen(text) > STATE_MAX)
		return err_set(e, ERR_LIMIT,
		    "the coordinator's state has %zu bytes, and at most %u can be read again",
		    strlen(text), STATE_MAX);
	rc = state_decode(document, &state, &why);
	state_release(&state);
	return rc
	    ? err_set(e, ERR_FAILED, "the coordinator's state could not be read again: %s", why.msg)
	    : ERR_OK;
}

/* The text of state.json as the state is now. *rc: why it must not be written. */
static char *describe_state(const struct coordinator *coordinator, enum err_code *rc, struct err *e)
{
	struct state state;
	json_t *document;
	char *text;

	coord_save(coordinator->coord, &state);
	/* Processes that were given these addresses look for the coordinator there. */
	state.listen = coordinator->server->address;
	state.http = http_address_to_save(coordinator);
	state.began = coordinator->file.began;
	state.lease_log = coordinator->file.leaselog ? lease_log_name(coordinator->file.leaselog)
	                                             : NULL;
	document = state_encode(&state);
	state_release(&state);
	text = json_text(document);
	*rc = check_state(document, text, e);
	json_decref(document);
	return text;
}

/* Replaces state.json. Called without the coordinator's lock. */
static enum err_code write_state(struct server *s, const char *text, struct err *e)
{
	char *path = rundir_path(s->cfg.id->run_dir, "state.json");
	struct file_new f;
	enum err_code rc = FAIL_ERROR("state_write", e);

	FAIL_POINT("state_before");
	if (!rc)
		rc = file_new_open(path, 0600, &f, e);
	if (!rc) {
		f.may_appear = verify_owner;
		f.ctx = s;
		rc = file_new_close(&f, file_write_all(f.fd, text, strlen(text), e), e);
	}
	if (!rc)
		FAIL_POINT("state_after");
	free(path);
	return rc;
}

void state_file_report_failure(struct coordinator *coordinator, int64_t *since, const struct err *e,
    int64_t now)
{
	bool store = coordinator->server->cfg.role;

	mutex_assert_held(&coordinator->lock);
	if (e->code == ERR_FENCED && !coordinator->file.fenced) {
		coordinator->file.fenced = true;
		log_err(coordinator->server->cfg.log, e);
		server_end(coordinator->server, e);
	}
	if (!*since) {
		*since = now;
		if (!coordinator->file.fenced)
			log_warn(coordinator->server->cfg.log, "%s: %s", e->msg,
			    store ? "the cluster continues without it"
			          : "the cluster cannot change until it can be written");
	}
	/* The state of a coordinator in a store's process is useless without the store, so do
	 * not fail the job. */
	if (!store && now - *since > coordinator->cfg.deadline)
		coord_fail(coordinator->coord, e->cause, e->msg, now);
}

/* Record up to which stamps answers may be sent, and wake I/O threads that hold such answers. */
static void allow_announcements(struct coordinator *coordinator, uint64_t stamp, uint64_t leases)
{
	bool waited = atomic_load(&coordinator->file.tellable) < stamp;

	if (waited)
		atomic_store(&coordinator->file.tellable, stamp);
	if (atomic_load(&coordinator->file.durable_leases) < leases) {
		atomic_store(&coordinator->file.durable_leases, leases);
		waited = true;
	}
	if (waited && atomic_load(&coordinator->server->io_threads_run))
		io_threads_wake(coordinator->server);
}

void state_file_note_leases(struct coordinator *coordinator, uint64_t leases)
{
	mutex_assert_held(&coordinator->lock);
	allow_announcements(coordinator, atomic_load(&coordinator->file.tellable), leases);
}

static bool has_new_description(const struct coordinator *coordinator)
{
	struct large_description *d = description_store_begin(coordinator);

	large_description_release(d);
	return d != NULL;
}

/* Until the partitions are placed there is nothing to recover, so the first state.json is enough, unless there is
 * a large description: workers have sent it and only refer to it when they join again. Leases are durable by
 * their log, which a new state.json allows to be truncated. */
static bool needs_writing(const struct coordinator *coordinator)
{
	if (!coordinator->server->cfg.id->run_dir || coordinator->file.fenced)
		return false;
	return (coord_stamp(coordinator->coord) != coordinator->file.saved &&
	           !(coordinator->file.saved && !coord_is_placed(coordinator->coord) &&
	               !has_new_description(coordinator))) ||
	    lease_log_is_long(coordinator->file.leaselog);
}

bool state_file_is_durable(struct coordinator *coordinator)
{
	uint64_t stamp = coord_stamp(coordinator->coord);

	mutex_assert_held(&coordinator->lock);
	if (coordinator->file.fenced || coordinator->file.writing)
		return false;
	if (needs_writing(coordinator)) {
		pthread_cond_signal(&coordinator->file.writer_woken);
		return atomic_load(&coordinator->file.tellable) >= stamp;
	}
	allow_announcements(coordinator, stamp,
	    coordinator->file.leaselog ? 0 : coord_lease_changes(coordinator->coord));
	return true;
}

/* One round of the writer, with the lock held, which is released while the file is written. What
 * must be announced is made from the same state that is written: changes that other threads make
 * meanwhile belong to the next round. */
static enum err_code save_state(struct coordinator *coordinator, struct err *e)
{
	uint64_t stamp = coord_stamp(coordinator->coord),
	         leases = coord_lease_changes(coordinator->coord);
	struct announcement news;
	enum err_code rc;
	struct large_description *described;
	char *text;

	mutex_assert_held(&coordinator->lock);
	coordinator->file.writing = true;
	if (coordinator->file.leaselog)
		lease_log_pause(coordinator->file.leaselog);
	text = describe_state(coordinator, &rc, e);
	described = description_store_begin(coordinator);
	coordinator_prepare(coordinator, &news, clock_now());
	mutex_unlock(&coordinator->lock);
	if (!rc && described)
		rc = description_store_write(coordinator->server->cfg.id->run_dir, described, e);
	if (!rc)
		rc = write_state(coordinator->server, text, e);
	if (!rc && described)
		description_store_clean(coordinator->server->cfg.id->run_dir, described);
	free(text);
	mutex_lock(&coordinator->lock);
	if (!rc && described)
		snprintf(coordinator->file.described, sizeof coordinator->file.described, "%s",
		    described->blake2b);
	large_description_release(described);
	coordinator->file.writing = false;
	if (coordinator->file.leaselog)
		lease_log_saved(coordinator->file.leaselog, rc == ERR_OK);
	if (rc) {
		coordinator_put_back(coordinator, &news);
		coordinator->file.save_again = clock_now() + RETRY;
		state_file_report_failure(coordinator, &coordinator->file.unsaved_since, e,
		    clock_now());
		/* The state of a coordinator in a store's process is useless without the store, so
		 * nothing waits until it is durable. Neither does the announcement that the job has
		 * failed. */
		if (!coordinator->file.fenced &&
		    (coordinator->server->cfg.role ||
		        coord_phase(coordinator->coord) == PHASE_FAILED))
			allow_announcements(coordinator, coord_stamp(coordinator->coord),
			    coord_lease_changes(coordinator->coord));
		return rc;
	}
	coordinator->file.saved = stamp;
	coordinator->file.saved_leases = leases;
	coordinator->file.unsaved_since = coordinator->file.save_again = 0;
	allow_announcements(coordinator, stamp, leases);
	coordinator_deliver(coordinator, &news);
	return ERR_OK;
}

/* Waits for RETRY, with the lock held, which is released meanwhile. */
static void wait_to_retry(struct coordinator *coordinator)
{
	int64_t until = clock_now() + RETRY;
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };

	mutex_assert_held(&coordinator->lock);
	while (clock_now() < until)
		mutex_wait_until(&coordinator->file.writer_woken, &coordinator->lock, &ts);
}

enum err_code state_file_write_first(struct coordinator *coordinator, struct err *e)
{
	enum err_code rc;

	if (!needs_writing(coordinator)) {
		state_file_is_durable(coordinator);
		return ERR_OK;
	}
	while ((rc = save_state(coordinator, e)) != ERR_OK && coordinator->server->state &&
	    !coordinator->file.fenced && !signals_end_is_pending() &&
	    clock_now() - coordinator->file.unsaved_since <= coordinator->cfg.deadline)
		wait_to_retry(coordinator);
	if (!rc && e)
		*e = (struct err){ 0 };
	return rc;
}

static void *run_state_writer(void *ctx)
{
	struct coordinator *coordinator = ctx;

	coordinator_lock(coordinator);
	for (;;) {
		int64_t now = clock_now();
		struct err e = { 0 };

		if (needs_writing(coordinator) && now >= coordinator->file.save_again) {
			enum err_code rc = save_state(coordinator, &e);

			coordinator_publish(coordinator);
			if (rc && coordinator->file.writer_stop)
				break;
		} else if (coordinator->file.writer_stop) {
			break;
		} else if (needs_writing(coordinator)) {
			struct timespec ts = { coordinator->file.save_again / NSEC_PER_SEC,
				coordinator->file.save_again % NSEC_PER_SEC };

			mutex_wait_until(&coordinator->file.writer_woken, &coordinator->lock, &ts);
		} else {
			mutex_wait(&coordinator->file.writer_woken, &coordinator->lock);
		}
	}
	mutex_unlock(&coordinator->lock);
	return NULL;
}

enum err_code state_file_start(struct coordinator *coordinator, struct err *e)
{
	enum err_code rc = thread_start(&coordinator->file.writer, run_state_writer, coordinator,
	    e);

	coordinator->file.writer_started = !rc;
	return rc;
}

void state_file_stop(struct coordinator *coordinator)
{
	if (!coordinator->file.writer_started)
		return;
	mutex_lock(&coordinator->lock);
	coordinator->file.writer_stop = true;
	pthread_cond_signal(&coordinator->file.writer_woken);
	pthread_cond_broadcast(&coordinator->changed);
	mutex_unlock(&coordinator->lock);
	pthread_join(coordinator->file.writer, NULL);
	coordinator->file.writer_started = false;
}

bool state_file_is_awaited(const struct coordinator *coordinator, uint64_t stamp)
{
	mutex_assert_held(&coordinator->lock);
	return atomic_load(&coordinator->file.tellable) < stamp &&
	    !coordinator->file.unsaved_since && !coordinator->file.fenced &&
	    coordinator->file.writer_started && !coordinator->file.writer_stop;
}
