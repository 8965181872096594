#include "server/remember.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "launch/rundir.h"

#define STATE_MAX (64u << 20)
/* A disk that is full may have room later on. */
#define RETRY (200 * NSEC_PER_MSEC)

static char *state_path(const struct server *s)
{
	return rundir_path(s->cfg.id->run_dir, "state.json");
}

/* ---- what another has left --------------------------------------------------------- */

/* A coordinator makes this file when it begins, and never takes it away. */
static bool was_here(const struct server *s)
{
	char *path = rundir_path(s->cfg.id->run_dir, "metrics.jsonl");
	bool is = access(path, F_OK) == 0;

	free(path);
	return is;
}

static enum err_code judge(struct server *s, const char *path, struct err *e)
{
	if (!s->state && was_here(s) && !s->cfg.resume)
		return err_set(e, ERR_CONFIG, "%s is gone, but a coordinator was here: bring it back, or begin anew with "
		    "--force-new-cluster (servers and workers of before are turned away)", path);
	if (!s->state || s->cfg.resume || !coord_state_lives(s->state))
		return ERR_OK;
	if (s->cfg.store)
		return err_set(e, ERR_CONFIG, "the coordinator that ended here was a store, too, and what it held is gone: "
		    "--resume auto goes on from the newest checkpoint, --force-new-cluster begins anew");
	s->recover = true;
	return ERR_OK;
}

enum err_code remember_read(struct server *s, struct err *e)
{
	enum err_code rc = ERR_OK;
	char *path;

	if (!s->cfg.coordinator || !s->cfg.id->run_dir)
		return ERR_OK;
	path = state_path(s);
	if (access(path, F_OK) == 0) {
		s->state = json_parse_file(path, STATE_MAX, e);
		if (!s->state && !s->cfg.force_new)
			rc = err_prefix(e, "the coordinator's state, without which only --force-new-cluster begins anew");
		else if (!s->state)
			*e = (struct err){ 0 };
	}
	if (!rc && !s->cfg.force_new)
		rc = judge(s, path, e);
	free(path);
	return rc;
}

/* ---- what we leave ------------------------------------------------------------------- */

/* Until it listens again, where the one before did. */
static const char *http_of(const struct host *h)
{
	if (h->http)
		return http_server_address(h->http);
	return h->server->recover ? json_str(h->server->state, "http", "") : "";
}

static enum err_code write_state(struct host *h, bool durable, struct err *e)
{
	json_t *state = coord_save(h->coord);
	struct file_new f;
	enum err_code rc;
	char *path = state_path(h->server), *text;

	/* Who was told an address looks for us there. */
	json_object_set_new(state, "listen", json_string(h->server->address));
	json_object_set_new(state, "http", json_string(http_of(h)));
	text = json_text(state);
	rc = FAIL_ERROR("state_write", e);
	if (!rc)
		rc = file_new_open(path, 0600, &f, e);
	if (!rc) {
		f.no_sync = !durable;
		rc = file_new_close(&f, fd_write_all(f.fd, text, strlen(text), e), e);
	}
	free(text);
	free(path);
	json_decref(state);
	return rc;
}

bool remember(struct host *h, int64_t now)
{
	/* A store's state tells the next coordinator no more than the epoch. */
	uint64_t stamp = coord_stamp(h->coord), leases = h->server->cfg.store ? 0 : coord_leases(h->coord);
	struct err e = { 0 };

	if (!h->server->cfg.id->run_dir || (stamp == h->saved && leases == h->saved_leases) ||
	    (h->saved && !coord_is_placed(h->coord)))
		return true;
	if (now < h->save_again)
		return false;
	FAIL_POINT("state_before");
	if (write_state(h, !h->server->cfg.store && stamp != h->saved, &e) == ERR_OK) {
		FAIL_POINT("state_after");
		h->saved = stamp;
		h->saved_leases = leases;
		h->unsaved_since = h->save_again = 0;
		return true;
	}
	if (!h->unsaved_since) {
		h->unsaved_since = now;
		log_warn(h->server->cfg.log, "%s: %s", e.msg, h->server->cfg.store ? "the cluster goes on without" :
		    "until it can be written nothing changes in the cluster");
	}
	h->save_again = now + RETRY;
	/* A store's state is of no use without the store. */
	if (h->server->cfg.store)
		return true;
	if (now - h->unsaved_since > h->cfg.deadline)
		coord_fail(h->coord, e.msg, now);
	return coord_phase(h->coord) == COORD_FAILED;
}
