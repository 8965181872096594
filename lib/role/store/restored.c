/* SPDX-License-Identifier: ISC */
#include "store/restored.h"

#include <inttypes.h>

#include "ckpt/read.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/mem.h"
#include "store/file_client.h"
#include "store/store_state.h"

/* Bytes between two heartbeats of a check. */
#define CHECK_PIECE (UINT64_C(8) << 20)

static enum err_code open_reader(struct server *s, const char *path, struct err *e)
{
	struct restored *r = &store_agent(s)->restored;
	enum err_code rc = s->cfg.id->run_dir ? ckpt_open(path, &r->reader, e)
	                                      : file_client_restore(s, &r->reader, e);

	if (rc)
		return rc;
	r->path = mem_strdup(path);
	return ERR_OK;
}

void restored_close(struct server *s)
{
	struct restored *r = &store_agent(s)->restored;

	ckpt_close(r->reader);
	free(r->path);
	r->reader = NULL;
	r->path = NULL;
}

enum err_code restored_open(struct server *s, const struct view *view, struct err *e)
{
	const struct restored *r = &store_agent(s)->restored;

	if (r->path && strcmp(r->path, view->restore) == 0)
		return ERR_OK;
	restored_close(s);
	return *view->restore ? open_reader(s, view->restore, e) : ERR_OK;
}

static enum err_code compare_share(struct server *s, const struct ckpt_share *share, struct err *e)
{
	struct ckpt_check *check = NULL;
	enum err_code rc = ckpt_check_begin(store_agent(s)->restored.reader, share, &check, e);

	while (!rc && !ckpt_check_is_done(check)) {
		rc = ckpt_check_some(check, CHECK_PIECE, e);
		agent_beat_busy(s->agent);
		if (!rc && atomic_load(&s->stopping))
			rc = err_set(e, ERR_STOPPED, "this process was stopped");
	}
	ckpt_check_free(check);
	return rc;
}

/* Opens the checkpoint and compares the share. Without a run directory all files are compared on
 * their way. */
static enum err_code open_and_compare(struct server *s, const struct view *view,
    const struct ckpt_share *share, struct err *e)
{
	enum err_code rc = restored_open(s, view, e);

	if (!rc && s->cfg.id->run_dir)
		rc = compare_share(s, share, e);
	if (!rc)
		rc = FAIL_ERROR("restore_check", e);
	if (rc)
		restored_close(s);
	return rc;
}

/* Does what open_and_compare does, and in a run directory tries again if a file cannot be read. */
static enum err_code compare_patiently(struct server *s, const struct view *view,
    const struct ckpt_share *share, struct err *e)
{
	struct read_retry retry = { 0 };
	enum err_code rc = open_and_compare(s, view, share, e);

	while (rc == ERR_IO && s->cfg.id->run_dir && store_may_read_again(s, &retry, e))
		rc = open_and_compare(s, view, share, e);
	return rc ? e->code : ERR_OK;
}

/* Does this error mean that the checkpoint is damaged? In a run directory every error does that
 * still keeps this server from reading it, except a lack of memory. */
static bool is_damage(const struct server *s, enum err_code rc)
{
	return s->cfg.id->run_dir ? rc != ERR_NOMEM && rc != ERR_STOPPED
	                          : rc == ERR_FORMAT || rc == ERR_UNSUPPORTED;
}

enum err_code restored_check(struct server *s, const struct view *view, struct err *e)
{
	struct restored *r = &store_agent(s)->restored;
	struct ckpt_share share = { (unsigned)s->cfg.index, (unsigned)view->nservers };
	int64_t begin = clock_now();
	struct err why = { 0 };
	enum err_code rc;

	if (r->checked && strcmp(r->checked, view->restore) == 0 && r->share.index == share.index &&
	    r->share.of == share.of)
		return ERR_OK;
	rc = compare_patiently(s, view, &share, &why);
	if (rc && !is_damage(s, rc))
		return err_pass(e, &why);
	free(r->checked);
	r->checked = mem_strdup(view->restore);
	r->share = share;
	if (rc)
		log_warn(s->cfg.log, "%s is damaged: %s", view->restore, why.msg);
	else
		log_info(s->cfg.log, "%s: share %u of %u is as its digests say; compared in %.1f s",
		    view->restore, share.index, share.of,
		    (double)(clock_now() - begin) / (double)NSEC_PER_SEC);
	/* The message is repeated in later sessions: the coordinator may be started again before it
	 * has acted on it. */
	agent_tell_lasting(s->agent, "checked",
	    MESSAGE(checked, .restore = view->restore, .index = (int64_t)share.index,
	        .of = (int64_t)share.of, .damage = rc ? why.msg : ""));
	return ERR_OK;
}
