#ifndef SERVER_KEEP_H
#define SERVER_KEEP_H

#include "server/host.h"

/* The coordinator's checkpoints.  All calls but start and stop under the host's
 * lock. */
struct keep;

/* What became of the last one that was asked for. */
struct keep_last {
	uint64_t done;                  /* the number keep_want gave */
	enum err_code rc;
	struct err why;
	uint64_t step;
	char *path;                     /* of the newest that was made, or NULL */
};

/* checkpoint_every, from now on (k may be NULL). */
void keep_every(struct keep *k, const struct conf_every *every);
/* Of those that this coordinator has made; step and at (Unix time in ns, 0: none) of the
 * newest there is, whoever has made it. */
struct keep_figures {
	uint64_t made, failed, step;
	int64_t at, took, every;        /* took: to be written; every: 0 when it does not go by time */
};

enum err_code keep_start(struct host *h, const struct conf *c, struct err *e);
void keep_stop(struct host *h);
void keep_free(struct keep *k);

/* Ask for one: when keep_last tells of this number or a later one, it is done. */
uint64_t keep_want(struct keep *k);
const struct keep_last *keep_last(const struct keep *k);
const char *keep_dir(const struct keep *k);
struct keep_figures keep_figures(const struct keep *k);
/* Where files of this snapshot go, fresh; NULL when it is not being written (k may
 * be NULL, too). */
char *keep_receives(const struct keep *k, uint64_t id);

#endif
