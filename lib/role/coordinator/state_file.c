/* SPDX-License-Identifier: ISC */
#include "coordinator/state_file.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#include "coordinator/lease_log.h"
#include "state/state_store.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/read_retry.h"
#include "core/signals.h"
#include "core/thread.h"
#include "msg/large_description.h"
#include "rundir/rundir.h"

/* A full disk may have room later. */
#define RETRY (200 * NSEC_PER_MSEC)
/* How long a starting coordinator waits until the former owner is known to be dead; more than a lease. */
#define OWNER_WAIT (10 * NSEC_PER_SEC)
/* How long it waits for the end of one of this host that lives, and how often it looks. */
#define OWNER_ENDS          NSEC_PER_SEC
#define OWNER_ENDS_PAUSE_MS 20

/* ---- the previous coordinator's state ---- */

/* Does the job go on from a checkpoint, whatever the state is? */
static bool goes_back(const struct server *s)
{
	return s->cfg.resume &&
	    !(s->cfg.goes_on && !s->cfg.role && s->state && coord_state_has_model(s->state));
}

/* A store that is not the run directory keeps the state of a cluster that has ended. Another cluster, with
 * other keys, may then use the same place. */
static bool is_of_former_cluster(const struct server *s)
{
	char own[2 * HS_CLUSTER_BYTES + 1];

	sodium_bin2hex(own, sizeof own, s->cfg.id->conn.cluster, HS_CLUSTER_BYTES);
	return s->cfg.state_url && !coord_state_is_running(s->state) &&
	    strcmp(s->state->cluster_id, own) != 0;
}

/* Without an option the state decides: a run that had begun is recovered; a run that had not begun
 * starts with the options of the previous coordinator. */
static enum err_code decide_recovery(struct server *s, bool lost, struct err *e)
{
	if (lost && !s->cfg.resume)
		return err_set(e, ERR_CONFIG,
		    "%s is missing, but a coordinator has run here: restore it, resume from the "
		    "newest checkpoint with --resume auto, or begin a new cluster with "
		    "--force-new-cluster (which refuses the previous servers and workers)",
		    s->state_store->ops->where(s->state_store));
	if (!s->state || goes_back(s) || !coord_state_has_model(s->state))
		return ERR_OK;
	if (is_of_former_cluster(s))
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

/* Decodes s->state, which stays NULL after an error. */
static enum err_code decode_state(struct server *s, struct state_values *values, struct err *e)
{
	enum err_code rc = state_join(values->part, &s->state_document, &s->description, e);

	if (rc)
		return err_prefix(e, "%s", s->state_store->ops->where(s->state_store));
	s->state = mem_alloc(sizeof *s->state);
	rc = state_decode(s->state_document, s->state, e);
	if (!rc)
		return ERR_OK;
	err_prefix(e, "%s", s->state_store->ops->where(s->state_store));
	free(s->state);
	s->state = NULL;
	return rc;
}

/* Has the state, or the record of its owner, been unreadable because of *e, and is it to be read
 * again? Then the pause before that is over, and *e is cleared. */
static bool may_read_again(const struct server *s, struct read_retry *r, struct err *e)
{
	if (signals_end_is_pending() || !read_retry_wanted(r, e, s->cfg.log, clock_now()))
		return false;
	clock_sleep(READ_RETRY_PAUSE_MS);
	*e = (struct err){ 0 };
	return true;
}

/* Reads all parts. ERR_IO: they cannot be read, which says nothing about damage. */
static enum err_code read_values(struct server *s, struct state_values *values, struct err *e)
{
	struct read_retry retry = { 0 };
	enum err_code rc = state_store_read(s->state_store, values, e);

	while (rc && may_read_again(s, &retry, e)) {
		state_values_release(values);
		rc = state_store_read(s->state_store, values, e);
	}
	return rc;
}

/* Reads the state of the coordinator before this one, and decides whether this one continues from
 * it. A damaged state is ignored if the job resumes from a checkpoint. A state that cannot be read
 * is not ignored: the job would go back to a checkpoint because a disk failed for a moment. */
static enum err_code read_state(struct server *s, struct err *e)
{
	struct state_values values;
	enum err_code rc;
	bool lost;

	state_free(s->state);
	json_decref(s->state_document);
	large_description_release(s->description);
	s->state = NULL;
	s->state_document = NULL;
	s->description = NULL;
	s->recover = false;
	rc = read_values(s, &values, e);
	lost = values.lost;
	if (!rc && values.part[STATE_PART_membership].len)
		rc = decode_state(s, &values, e);
	state_values_release(&values);
	/* When resuming from a checkpoint, only the epoch of the state is needed. */
	if (rc && (s->cfg.force_new || (s->cfg.resume && rc != ERR_IO))) {
		*e = (struct err){ 0 };
		rc = ERR_OK;
	} else if (rc == ERR_IO) {
		err_prefix(e, "the coordinator's state cannot be read, and may be whole");
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
		rc = decide_recovery(s, lost, e);
	return rc;
}

/* A coordinator that was started again on another host waits until it is known that the one before it does
 * not live. True: it has waited a little. */
static bool may_wait_for_owner(int64_t until, const struct err *e)
{
	const struct timespec pause = { 0, RETRY };

	if (e->code != ERR_NOTREADY || clock_now() >= until || signals_end_is_pending())
		return false;
	nanosleep(&pause, NULL);
	return true;
}

/* A former owner on this host that is only stopped listens on the sockets of the run directory. It is fenced,
 * so they are those of the new owner. */
static void remove_sockets(const struct server *s)
{
	char *control = rundir_path(s->cfg.id->run_dir, "ctl.sock");

	unlink(control);
	if (s->cfg.unix_path)
		unlink(s->cfg.unix_path);
	free(control);
}

/* Is there no owner that is known to live? A process that was killed a moment ago may not have ended yet. */
static enum err_code check_free(struct server *s, struct err *e)
{
	int64_t until = clock_now() + OWNER_ENDS;
	enum err_code rc;

	while ((rc = s->state_store->ops->check_free(s->state_store, e)) == ERR_EXISTS &&
	    clock_now() < until && !signals_end_is_pending())
		clock_sleep(OWNER_ENDS_PAUSE_MS);
	if (!rc && e)
		*e = (struct err){ 0 };
	return rc;
}

/* A coordinator that was started becomes the owner. It waits for room on the disk, and until it is known that
 * the owner before it is dead. It reads the state first: if it cannot go on from that, it must not take over
 * from a coordinator on another host. */
static enum err_code become_owner_at_start(struct server *s, struct err *e)
{
	struct state_store *store = s->state_store;
	struct read_retry retry = { 0 };
	int64_t since = 0, until = clock_now() + OWNER_WAIT;
	enum err_code rc;

	do
		rc = check_free(s, e);
	while (rc && may_read_again(s, &retry, e));
	if (!rc)
		rc = read_state(s, e);
	if (!rc)
		do
			rc = store->ops->become_owner(store, e);
		while (rc && (server_wait_for_room(s, &since, e) || may_wait_for_owner(until, e)));
	return rc;
}

/* A standby becomes the owner, or gets ERR_FENCED and waits for its turn again: while there is no room on the
 * disk, another one may take over. It knows that the owner before it is silent; the process of that one may
 * only be stopped, so nothing asks whether it lives. */
static enum err_code become_owner_in_turn(struct server *s, struct err *e)
{
	enum err_code rc = read_state(s, e);

	if (!rc)
		rc = s->state_store->ops->become_owner(s->state_store, e);
	if (rc == ERR_EXISTS || rc == ERR_NOTREADY)
		return e->code = ERR_FENCED;
	if (!rc)
		remove_sockets(s);
	return rc;
}

enum err_code state_file_read(struct server *s, struct err *e)
{
	const struct state_store_config cfg = { .run_dir = s->cfg.id->run_dir,
		.url = s->cfg.state_url,
		.incarnation = s->incarnation,
		.log = s->cfg.log };
	enum err_code rc;

	s->state_store = state_store_open(&cfg);
	if (!s->state_store)
		return ERR_OK;
	rc = s->cfg.standby ? become_owner_in_turn(s, e) : become_owner_at_start(s, e);
	/* The owner before this one may have written the state since it was read. */
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

/* Does the saved state have the address of the control plane? */
static bool has_http_address(const struct coordinator *coordinator)
{
	mutex_assert_held(&coordinator->lock);
	return strncmp(http_address_to_save(coordinator), coordinator->file.http,
	           sizeof coordinator->file.http - 1) == 0;
}

void state_file_note_http(struct coordinator *coordinator)
{
	mutex_assert_held(&coordinator->lock);
	pthread_cond_signal(&coordinator->file.writer_woken);
}

/* Can the next coordinator read this document? A state that it refuses must not replace one that it
 * reads. */
static enum err_code check_state(const json_t *document, struct err *e)
{
	struct state state;
	struct err why = { 0 };
	enum err_code rc = state_decode(document, &state, &why);

	state_release(&state);
	return rc ? err_because(e, ERR_FAILED, why.cause,
	                "the coordinator's state could not be read again: %s", why.msg)
	          : ERR_OK;
}

/* A state that is to be written: the texts of its parts, and the large description among them,
 * which is NULL if there is none. */
struct described {
	char *text[STATE_PARTS];
	struct large_description *large;
};

static void described_release(struct described *d)
{
	for (size_t i = 0; i < STATE_PARTS; i++)
		free(d->text[i]);
	large_description_release(d->large);
}

static enum err_code check_lengths(const struct described *d, struct err *e)
{
	for (size_t i = 0; i < STATE_PARTS; i++)
		if (d->text[i] && strlen(d->text[i]) > STATE_PART_MAX)
			return err_set(e, ERR_LIMIT,
			    "the part \"%s\" of the coordinator's state has %zu bytes, and at most %zu "
			    "can be read again",
			    state_part_name[i], strlen(d->text[i]), STATE_PART_MAX);
	return ERR_OK;
}

/* Describes the present state. An error says why it must not be written. *out is to be
 * released in any case. */
static enum err_code describe_state(const struct coordinator *coordinator, struct described *out,
    struct err *e)
{
	struct state state;
	json_t *document;
	enum err_code rc;

	mutex_assert_held(&coordinator->lock);
	coord_save(coordinator->coord, &state);
	/* Processes that were given these addresses look for the coordinator there. */
	state.listen = coordinator->server->address;
	state.http = http_address_to_save(coordinator);
	state.began = coordinator->file.began;
	document = state_encode(&state);
	state_release(&state);
	rc = check_state(document, e);
	state_split(document, out->text);
	out->large = large_description_hold(coord_large_description(coordinator->coord));
	json_decref(document);
	return rc ? rc : check_lengths(out, e);
}

/* Replaces the state. Called without the coordinator's lock. */
static enum err_code write_state(struct state_store *store, const struct described *d,
    struct err *e)
{
	struct state_text text[STATE_PARTS];
	enum err_code rc = FAIL_ERROR("state_write", e);

	for (size_t i = 0; i < STATE_PARTS; i++)
		text[i] = (struct state_text){ .text = d->text[i],
			.size = d->text[i] ? strlen(d->text[i]) : 0 };
	if (d->large)
		text[STATE_PART_description] = (struct state_text){ .text = d->large->text,
			.size = d->large->size,
			.digest = d->large->blake2b };
	FAIL_POINT("state_before");
	if (!rc)
		rc = state_store_write(store, text, e);
	if (!rc)
		FAIL_POINT("state_after");
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
		server_end_overtaken(coordinator->server, e);
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
	if (!store && !coordinator->ownership.aside && now - *since > coordinator->cfg.deadline)
		coord_fail(coordinator->coord, e->cause, e->msg, now);
}

/* Record up to which revisions answers may be sent, and wake I/O threads that hold such answers. */
static void allow_announcements(struct coordinator *coordinator, uint64_t rev, uint64_t leases)
{
	bool waited = atomic_load(&coordinator->file.announced_up_to) < rev;

	if (waited)
		atomic_store(&coordinator->file.announced_up_to, rev);
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
	allow_announcements(coordinator, atomic_load(&coordinator->file.announced_up_to), leases);
}

bool state_file_has_secret(const struct coordinator *coordinator)
{
	mutex_assert_held(&coordinator->lock);
	return strcmp(coordinator->file.cluster_id, coordinator->cluster_id) == 0;
}

static bool has_new_description(const struct coordinator *coordinator)
{
	const struct large_description *d = coord_large_description(coordinator->coord);

	return d && strcmp(d->blake2b, coordinator->file.described) != 0;
}

/* Until the partitions are placed there is nothing to recover, so the first state is enough,
 * unless there is a large description: workers have sent it and only refer to it when they join
 * again. At any time the state has to be written if the cluster's secret has been renewed, because the
 * next coordinator knows only the present secret and the one before it, and if the control plane has
 * another address, where commands on other hosts look for it. Leases are durable by their log, which a
 * new state allows to be truncated. */
static bool needs_writing(const struct coordinator *coordinator)
{
	if (!coordinator->server->state_store || coordinator->file.fenced)
		return false;
	return (coordinator->file.saved &&
	           !(state_file_has_secret(coordinator) && has_http_address(coordinator))) ||
	    (coord_state_rev(coordinator->coord) != coordinator->file.saved &&
	        !(coordinator->file.saved && !coord_is_placed(coordinator->coord) &&
	            !has_new_description(coordinator))) ||
	    lease_log_is_long(coordinator->file.leaselog);
}

bool state_file_is_durable(struct coordinator *coordinator)
{
	uint64_t rev = coord_state_rev(coordinator->coord);

	mutex_assert_held(&coordinator->lock);
	if (coordinator->file.fenced || coordinator->file.writing)
		return false;
	if (needs_writing(coordinator)) {
		pthread_cond_signal(&coordinator->file.writer_woken);
		return atomic_load(&coordinator->file.announced_up_to) >= rev;
	}
	allow_announcements(coordinator, rev,
	    coordinator->file.leaselog ? 0 : coord_lease_changes(coordinator->coord));
	return true;
}

/* One round of the writer, with the lock held, which is released while the file is written. What
 * must be announced is made from the same state that is written: changes that other threads make
 * meanwhile belong to the next round. */
static enum err_code save_state(struct coordinator *coordinator, struct err *e)
{
	uint64_t rev = coord_state_rev(coordinator->coord),
	         leases = coord_lease_changes(coordinator->coord);
	struct announcement news;
	enum err_code rc;
	struct described described;
	char cluster_id[sizeof coordinator->file.cluster_id], http[sizeof coordinator->file.http];

	mutex_assert_held(&coordinator->lock);
	snprintf(http, sizeof http, "%s", http_address_to_save(coordinator));
	snprintf(cluster_id, sizeof cluster_id, "%s", coordinator->cluster_id);
	coordinator->file.writing = true;
	if (coordinator->file.leaselog)
		lease_log_pause(coordinator->file.leaselog);
	rc = describe_state(coordinator, &described, e);
	coordinator_prepare(coordinator, &news, clock_now());
	mutex_unlock(&coordinator->lock);
	if (!rc)
		rc = write_state(coordinator->server->state_store, &described, e);
	mutex_lock(&coordinator->lock);
	if (!rc && described.large)
		snprintf(coordinator->file.described, sizeof coordinator->file.described, "%s",
		    described.large->blake2b);
	described_release(&described);
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
			allow_announcements(coordinator, coord_state_rev(coordinator->coord),
			    coord_lease_changes(coordinator->coord));
		return rc;
	}
	memcpy(coordinator->file.cluster_id, cluster_id, sizeof cluster_id);
	memcpy(coordinator->file.http, http, sizeof http);
	coordinator->file.saved = rev;
	coordinator->file.saved_leases = leases;
	coordinator->file.unsaved_since = coordinator->file.save_again = 0;
	allow_announcements(coordinator, rev, leases);
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
	/* A coordinator whose ownership has ended must read the state again before it may write. */
	while ((rc = save_state(coordinator, e)) != ERR_OK && rc != ERR_CLOSED &&
	    coordinator->server->state && !coordinator->file.fenced && !signals_end_is_pending() &&
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

/* Is there a writer, and is nothing in its way? */
static bool writer_works(const struct coordinator *coordinator)
{
	mutex_assert_held(&coordinator->lock);
	return !coordinator->file.unsaved_since && !coordinator->file.fenced &&
	    coordinator->file.writer_started && !coordinator->file.writer_stop;
}

bool state_file_is_awaited(const struct coordinator *coordinator, uint64_t rev)
{
	return atomic_load(&coordinator->file.announced_up_to) < rev && writer_works(coordinator);
}

bool state_file_await_secret(struct coordinator *coordinator)
{
	mutex_assert_held(&coordinator->lock);
	coordinator_publish(coordinator);
	while (!state_file_has_secret(coordinator) && writer_works(coordinator)) {
		pthread_cond_signal(&coordinator->file.writer_woken);
		coordinator_wait(coordinator, 0);
	}
	return state_file_has_secret(coordinator);
}
