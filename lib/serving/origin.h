/* SPDX-License-Identifier: ISC */
#ifndef SERVING_ORIGIN_H
#define SERVING_ORIGIN_H

#include "conf/conf.h"
#include "serving/served.h"

/* The origin of served models. Its variants:
 *
 *   origin_saved.c    a model file, a checkpoint, or the newest checkpoint or the model of a run
 *                     directory. Another one may take its place under the same name.
 *   origin_replica.c  the partitions of this process, which a follower keeps like those of a living
 *                     cluster. The model stays, and its values change.
 *   origin_cluster.c  the servers of a read-only cluster, of which this process is the coordinator.
 *                     Each batch pulls the rows that it needs, so that the model may be larger than
 *                     the memory of a process. The model stays, with its values. */
struct served_origin_ops {
	/* Opens the present model: source, version and made of *m, which is empty. Called by one
	 * thread at a time. May block. check: compare and check all of it; else another call has
	 * done that. Errors as of served_reader_open. */
	enum err_code (
	    *open)(struct served_origin *o, bool check, struct served_model *m, struct err *e);
	/* Is there another model than the one that `open` has opened last? Called by the watcher,
	 * several times a second, and not while `open` runs. forced: a user asks for it. NULL:
	 * there never is. */
	bool (*has_changed)(struct served_origin *o, bool forced);
	/* The age of the values of a model in ns; -1: not known. Any thread. */
	int64_t (*age)(const struct served_origin *o, const struct served_model *m);
	/* From now on another thread uses the model than the one that has used it. NULL: it has
	 * nothing that belongs to a thread. */
	void (*hand_over)(struct served_model *m);
	/* Closes the source of a model, which may be NULL. NULL: it is closed by itself. */
	void (*close)(struct served_model *m);
	void (*free)(struct served_origin *o);
};
/* The first member of each variant. */
struct served_origin {
	const struct served_origin_ops *ops;
};

/* The origin of a saved model by its path. */
struct served_origin *origin_saved(const char *path);

/* Names the values of a saved model, and says when they were saved (version, made of *m): by the step of
 * a checkpoint, or by the time of a file. */
void origin_describe_saved(const char *path, struct served_model *m);

/* The servers of the read-only cluster of a run directory. saved: the model that they began with; NULL: not
 * known. patience: ns to wait for the servers at the start; read_patience: for the rows of a batch.
 * interrupt ends a wait; it is borrowed, like the log, as long as the origin lives. */
struct interrupt;
struct cluster_origin_config {
	const char *run, *saved;
	int64_t patience, read_patience;
	const struct interrupt *interrupt;
	struct log *log;
};
struct served_origin *origin_cluster(const struct cluster_origin_config *c);

/* The partitions of a server. All functions may be called by any thread as long as the origin
 * lives. */
struct shard;
struct origin_target {
	void *server;
	/* its partitions; NULL before it has any */
	struct shard *(*shard)(void *server);
	/* the time (clock_now) at which its values were those of the cluster; 0: not known */
	int64_t (*as_of)(void *server);
	/* waits for ns, or until the process is to end; true then */
	bool (*wait_for_end)(void *server, int64_t ns);
};
/* source: describes the model, with its configuration and facts, which are copied. fresh: in ns,
 * how old copies of dense tables may be. */
struct served_origin *origin_replica(const struct origin_target *target,
    const struct param_source *source, int64_t fresh);

#endif
