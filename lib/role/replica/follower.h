/* SPDX-License-Identifier: ISC */
#ifndef REPLICA_FOLLOWER_H
#define REPLICA_FOLLOWER_H

#include "conf/conf.h"
#include "core/thread.h"
#include "core/log.h"

/* A follower keeps the parameters of a read replica up to date. A read replica is a read-only
 * server that serves pulls with the parameters of a living cluster, the source. First the follower
 * saves all parameters as a checkpoint, with which the server begins; then a thread repeatedly
 * pulls the parameters that have changed. The follower is outside of the source's job: nothing
 * there waits for it, and it may come and go.
 *
 * Life: follower_open (connected) -> follower_prepare (disconnected, the checkpoint is there) ->
 * server_start -> follower_start (the thread runs) -> follower_close -> server_stop. The thread is
 * connected or lost; when lost, the last values are served on, and it tries to connect again with
 * growing pauses. The follower has no locks: one thread owns it at a time. */
struct follower;
struct shard;

/* The server whose parameters the follower sets; it must outlive the follower. Both functions may
 * be called by any thread. */
struct follower_target {
	void *server;
	/* its partitions; NULL before it has any */
	struct shard *(*shard)(void *server);
	/* tells it that its values are those that the source had at `then` (clock_now) */
	void (*as_of)(void *server, int64_t then);
	/* tells it whether the follower keeps new values back (serve_if) */
	void (*held)(void *server, bool held);
};

/* Is `where` a join file, or the run directory of a living cluster? */
bool follower_can_follow(const char *where);
/* Connect to the cluster of a run directory, or of a join file of any role that may pull.
 * interrupt ends this and follower_prepare with ERR_STOPPED; it is borrowed as long as the follower
 * lives. ERR_NOTFOUND, ERR_UNREACH, ERR_AUTH, ERR_NOTREADY. *out is set whatever is returned. */
enum err_code follower_open(const char *where, const struct interrupt *interrupt, struct log *log,
    struct follower **out, struct err *e);
/* Prepare a read-only run (rundir/readonly.h) with the source's present
 * parameters: save them as a checkpoint in the new run directory, whose path is *from. ERR_CONFIG:
 * the settings ask for more than one server. */
enum err_code follower_prepare(struct follower *m, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, char **from, struct err *e);
/* Start the thread. It keeps the values of the target, which has begun with the checkpoint of
 * follower_prepare, at most `fresh` ns old, as far as pulls are that quick. */
enum err_code follower_start(struct follower *m, const struct follower_target *target,
    int64_t fresh, struct err *e);
/* End the thread and free the follower. Called before server_stop. NULL is fine. */
void follower_close(struct follower *m);

#endif
