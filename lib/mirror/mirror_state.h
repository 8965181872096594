#ifndef MIRROR_MIRROR_STATE_H
#define MIRROR_MIRROR_STATE_H

/* Inside of a mirror.  Its thread owns all of it from mirror_start on, but for `end`. */
#include <pthread.h>

#include "ckpt/write.h"
#include "client/identity.h"
#include "mirror/mirror.h"
#include "shard/shard.h"
#include "work/tool.h"

/* A table, as it was there at first. */
struct mirrored {
	char name[TABLE_NAME];
	bool sparse;
	uint64_t rows;
	uint32_t cols, nparts;
	int here;                       /* its number in the server; -1: not known yet */
	bool changed;                   /* it has another shape there now, or is gone: what is here stays */
	/* dense: all values, and of which version those of each partition are (UNKNOWN: of none that is known);
	 * based: the present connection has brought them */
	float *w;
	uint64_t *version;
	bool based;
	/* sparse: what was updated at this step or later has not come; CLIENT_ALL: nothing has; when all is to be fetched
	 * again where it is not known what has changed (clock_now) */
	uint64_t since;
	int64_t due;
};
#define UNKNOWN UINT64_MAX
/* So many partitions of a sparse table are asked for together: what comes of them lies in memory until it is given. */
#define MIRROR_GROUP 32u

struct mirror {
	struct log *log;
	struct identity id;
	struct tool tool;
	bool connected;
	uint32_t generation;            /* of the layout there that the versions and steps are of */
	struct mirrored *table;
	size_t ntables;

	struct server *server;
	int64_t fresh, last;            /* last: the source had what is here then */
	struct interrupt end;
	bool running, lost;             /* lost: the source, and it was told */
	pthread_t thread;
};

/* mirror_save.c: the checkpoint to begin with, in this directory.  *path: fresh. */
enum err_code mirror_save(struct mirror *m, const char *checkpoints, char **path, struct err *e);
/* mirror_take.c: has the server all tables by now?  Then: one look at everything. */
bool mirror_finds(struct mirror *m, struct shard *shard);
enum err_code mirror_take(struct mirror *m, struct shard *shard, struct err *e);

/* Rows of a table by its partitions: those of partition i are first[i] .. first[i + 1] - 1, in the order in which they
 * were. */
struct parted {
	uint64_t *ids;
	float *rows;
	size_t *first;                  /* of all partitions, and the end */
	/* parted_narrow: of each row the first columns, and as checkpoints say it how wide it is (ckpt/write.h); of the wide
	 * ones, of partition i wide[i] .. wide[i + 1] - 1, the rest. */
	float *narrow, *rest;
	uint64_t *width;
	size_t *wide;
};
enum err_code parted_make(const struct table *t, const uint64_t *ids, const float *rows, size_t n, struct parted *out, struct err *e);
/* Of a table with rows that may be narrow, whose missing columns are zeros here. */
enum err_code parted_narrow(const struct table *t, struct parted *p, struct err *e);
void parted_release(struct parted *p);

#endif
