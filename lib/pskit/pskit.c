/* SPDX-License-Identifier: ISC */
#include "pskit/handle.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "auth/keys.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/utf8.h"
#include "core/version.h"
#include "rundir/rundir.h"

#define TIMEOUT_MS 30000

/* ---- codes ---- */

static int public_code(enum err_code code)
{
	switch (code) {
	case ERR_FORBIDDEN:
		return PS_AUTH;
	case ERR_CLOSED:
		return PS_UNREACH;
	case ERR_IO:
	case ERR_FORMAT:
	case ERR_PROTO:
	case ERR_LIMIT:
	case ERR_EXISTS:
	case ERR_STALE:
		return PS_FAILED;
	default:
		return (int)code;
	}
}

int pskit_return(struct ps *p, enum err_code rc)
{
	if (!rc)
		p->e = (struct err){ 0 };
	return public_code(rc);
}

int pskit_misuse(struct ps *p, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	utf8_vprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	err_set(&p->e, ERR_USAGE, "%s", text);
	return PS_USAGE;
}

PUBLIC const char *ps_version(void)
{
	return PSKIT_VERSION;
}

PUBLIC const char *ps_strerror(int code)
{
	if (code == PS_OVER || code == PS_AGAIN)
		return code == PS_OVER ? "all steps are done" : "the call has not ended";
	return code >= 0 && code <= PS_UNSUPPORTED ? err_text((enum err_code)code) : "no such code";
}

PUBLIC const char *ps_message(const struct ps *p)
{
	return !p              ? "out of memory"
	    : pskit_is_busy(p) ? "another call has not ended: ps_fd becomes readable when it has"
	                       : p->e.msg;
}

/* ---- a handle ---- */

static void ignore_log(void *ctx, int level, const char *text)
{
	(void)ctx;
	(void)level;
	(void)text;
}

static char *copy_or_null(const char *s)
{
	return s ? mem_strdup(s) : NULL;
}

static int wanted_rank(const struct ps_options *o)
{
	const char *env = getenv("PSKIT_RANK");
	int64_t rank;

	if (o->rank_wanted > 0)
		return o->rank_wanted - 1;
	return env && num_int(env, 0, 4095, &rank) ? (int)rank : -1;
}

/* Asks the callback of ps_on_interrupt whether to stop: it counts as ps_cancel. */
static void poll_caller(void *ctx)
{
	struct ps *p = ctx;

	if (p->asked && p->asked(p->asked_ctx))
		ps_cancel(p);
}

static enum err_code find_cluster_of_handle(struct ps *p, const char *where)
{
	const char *join = identity_join_file(where);

	if (join) {
		p->by_join = true;
		p->where = mem_strdup(join);
		return ERR_OK;
	}
	return rundir_find(where, &p->where, &p->e);
}

PUBLIC int ps_open(const char *where, const struct ps_options *options, struct ps **out)
{
	struct ps_options o = { 0 };
	struct ps *p = calloc(1, sizeof *p);
	const char *name;

	*out = p;
	if (!p)
		return PS_NOMEM;
	p->interrupt.fd = -1;
	if (options && options->size < offsetof(struct ps_options, log_level) + sizeof o.log_level)
		return pskit_misuse(p,
		    "ps_open: the size of the options is missing: set it to sizeof(struct "
		    "ps_options)");
	if (options)
		memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
	name = o.name ? o.name : getenv("PSKIT_WORKER");
	p->name = copy_or_null(name);
	p->zone = copy_or_null(o.zone);
	p->rank = wanted_rank(&o);
	p->timeout = (o.timeout_ms > 0 ? o.timeout_ms : TIMEOUT_MS) * 1000000;
	log_init(&p->log, name ? name : "pskit", -1, (enum log_level)o.log_level);
	p->has_sink = o.log;
	p->log.sink = o.log ? o.log : ignore_log;
	p->log.ctx = o.ctx;
	if (key_init(&p->e))
		return pskit_return(p, p->e.code);
	p->interrupt = (struct interrupt){ eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), poll_caller, p };
	return pskit_return(p,
	    p->interrupt.fd < 0 ? err_sys(&p->e, ERR_IO, "eventfd")
	                        : find_cluster_of_handle(p, where));
}

enum err_code pskit_identify(struct ps *p, const char *name)
{
	enum err_code rc;

	if (p->has_id)
		return ERR_OK;
	rc = p->by_join ? identity_from_join(p->where, &p->id, &p->e)
	                : identity_from_run(p->where, p->name ? p->name : name, &p->id, &p->e);
	p->has_id = !rc;
	return rc;
}

PUBLIC void ps_cancel(struct ps *p)
{
	uint64_t one = 1;
	int saved = errno;

	if (p && p->interrupt.fd >= 0 && write(p->interrupt.fd, &one, sizeof one) < 0)
		errno = saved; /* the counter is full, so the descriptor is readable already */
	errno = saved;
}

PUBLIC int ps_on_interrupt(struct ps *p, int (*fn)(void *ctx), void *ctx)
{
	if (pskit_is_busy(p))
		return PS_USAGE;
	p->asked = fn;
	p->asked_ctx = ctx;
	return PS_OK;
}

PUBLIC void ps_close(struct ps *p)
{
	struct err why = { 0 };

	if (!p)
		return;
	pskit_end_async(p);
	if (p->joined) {
		/* Closed before the end of the job, a worker leaves it: its rank and its examples go to
		 * others. */
		if (!p->ended)
			ps_cancel(p);
		worker_close(&p->w, p->ended ? ERR_OK : ERR_STOPPED, &why);
	}
	if (p->attached)
		tool_close(&p->tool);
	pskit_free_prefetch(p);
	pskit_free_pushed_rows(p);
	if (p->reserved) {
		p->held = p->reserved;
		pskit_free_pushed_rows(p);
	}
	if (p->has_id)
		identity_release(&p->id);
	if (p->interrupt.fd >= 0)
		close(p->interrupt.fd);
	free(p->where);
	free(p->name);
	free(p->zone);
	free(p->tables);
	free(p->first);
	json_decref(p->settings);
	pskit_free_first(p);
	free(p);
}
