/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "client/client_state.h"

/* Log what a worker is waiting for, and for how long. */

/* Is the link UP, and an answer open? */
static bool has_open_answer(const struct link *l)
{
	return l->state == LINK_UP && (l->asks || l->open_inflight || l->clock_due || l->done_due);
}

void client_log_waiting(struct client *c, uint64_t step, int64_t since)
{
	struct buf who = BUF_INIT;
	int seconds = (int)((clock_now() - since) / NSEC_PER_SEC);

	for (unsigned i = 0; i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (l->used && l->state != LINK_UP)
			log_warn(c->cfg.log, "waiting for %s (%s) for %d s: %s", l->id, l->tcp,
			    seconds, l->fault.code ? l->fault.msg : "no answer yet");
	}
	if (c->cfg.who)
		c->cfg.who(c->cfg.ctx, step, &who);
	if (who.len)
		log_warn(c->cfg.log, "waiting at step %llu for %d s: %s", (unsigned long long)step,
		    seconds, who.data);
	/* No other worker is behind: the cause is a server, or the network path to it. */
	for (unsigned i = 0; !who.len && i < c->nlinks; i++) {
		struct link *l = c->link[i];

		if (has_open_answer(l))
			log_warn(c->cfg.log,
			    "waiting for %s (%s) for %d s: it is connected, and does not answer",
			    l->id, l->tcp, seconds);
	}
	buf_release(&who);
}
