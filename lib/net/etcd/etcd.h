/* SPDX-License-Identifier: ISC */
#ifndef ETCD_ETCD_H
#define ETCD_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"
#include "etcd/url.h"
#include "socket/net.h"

/* A client of etcd, version 3.4 or later, by its JSON gateway (POST /v3/..., "gRPC gateway" in
 * etcd's documentation) and libcurl. Keys and values are base64 in these documents, 64-bit integers
 * are strings, and members that are zero are left out; this client hides all three.
 *
 * All keys begin with the prefix of the URL (etcd/url.h). As etcd's own tools do, it takes
 * ETCDCTL_USER ("NAME:PASSWORD", or "NAME" with ETCDCTL_PASSWORD), ETCDCTL_CACERT, ETCDCTL_CERT and
 * ETCDCTL_KEY from the environment. An etcd without users takes no notice of a user.
 *
 * The members of etcd are asked in turn until one of them answers: a frozen member, or one without
 * a majority, may not answer for ever. An error therefore never says that nothing was done. A call
 * is made again at the next member, also when the first one may have done it, so that a transaction
 * must be one that may be done twice.
 *
 * Errors: ERR_IO: no member has answered within the patience, or etcd cannot do it now; ERR_AUTH:
 * the user, the password or the certificate of either side is refused, or the user may not use these
 * keys; ERR_CONFIG: a file that the environment names cannot be read, or etcd refuses the request as
 * invalid, as one that is too long; ERR_STALE: etcd has forgotten this revision; ERR_LIMIT: the answer
 * is too long; ERR_PROTO: not an answer of etcd. ERR_AUTH, ERR_CONFIG and ERR_PROTO come at once: no
 * patience makes them right.
 *
 * Any thread; calls of several threads run at the same time, each on a connection of its own. */
struct etcd;

/* Makes no connection yet. ERR_CONFIG: the URL is malformed. */
enum err_code etcd_open(const char *url, struct etcd **out, struct err *e);
void etcd_close(struct etcd *c); /* NULL is fine */
/* The URL, for messages. Borrowed. */
const char *etcd_where(const struct etcd *c);

/* The values of one request are at most this long together, in bytes: by default etcd refuses requests
 * of more than 1.5 MiB, which it counts without base64. */
#define ETCD_VALUE_MAX ((size_t)1 << 20)

/* A key and its value. */
struct etcd_kv {
	char *key; /* without the prefix */
	struct buf value;
	int64_t create_revision, mod_revision;
};
struct etcd_kvs {
	struct etcd_kv *kv;
	size_t n;
};
void etcd_kvs_release(struct etcd_kvs *kvs);

/* ---- members ---- */

/* The state of a member, as it reports it. */
struct etcd_member {
	char version[32];
	char cluster[24]; /* the number of its etcd */
	bool has_leader;  /* it knows which member leads */
};
/* How many addresses the URL has, and the one of this number. */
unsigned etcd_members(const struct etcd *c);
void etcd_member_address(const struct etcd *c, unsigned i, char out[static NET_TEXT]);
/* Asks this member alone. */
enum err_code etcd_member_ask(struct etcd *c, unsigned i, int64_t patience, struct etcd_member *out,
    struct err *e);
/* The name of the user, or NULL. Borrowed. */
const char *etcd_user(const struct etcd *c);

/* ---- leases ---- */

/* A lease of ttl seconds, to which keys can be bound. *ttl: what etcd has granted, which may be
 * more. patience: in ns, as everywhere here. */
enum err_code etcd_lease_grant(struct etcd *c, int64_t *ttl, int64_t patience, int64_t *lease,
    struct err *e);
/* Makes the lease last for its ttl again. *alive: false, when etcd has no such lease any more. One
 * lease a request: etcd ignores further ones. */
enum err_code etcd_lease_keep(struct etcd *c, int64_t lease, int64_t patience, bool *alive,
    struct err *e);
/* Ends the lease and removes its keys. */
enum err_code etcd_lease_revoke(struct etcd *c, int64_t lease, int64_t patience, struct err *e);

/* ---- keys ---- */

/* Reads all keys that begin with `key`, in order, as a majority has agreed on them when it answers
 * (linearizable). At most `most` keys in one answer; more are read by further requests, which may
 * see later changes. most: 0: the keys without their values, all in one answer. */
enum err_code etcd_read(struct etcd *c, const char *key, unsigned most, int64_t patience,
    struct etcd_kvs *out, struct err *e);

/* A transaction: if all conditions hold, all writes are done, else none. Each function copies its
 * arguments. */
struct etcd_txn {
	json_t *compare, *success;
};
void etcd_txn_begin(struct etcd_txn *t);
/* Condition: the key was made by the write with this revision; 0: there is no such key. */
void etcd_if_created(struct etcd *c, struct etcd_txn *t, const char *key, int64_t revision);
/* Condition: the key was last written with this revision. */
void etcd_if_written(struct etcd *c, struct etcd_txn *t, const char *key, int64_t revision);
/* Write a key. lease: 0: none. */
void etcd_put(struct etcd *c, struct etcd_txn *t, const char *key, const void *value, size_t n,
    int64_t lease);
/* Remove a key. */
void etcd_delete(struct etcd *c, struct etcd_txn *t, const char *key);
/* Remove the keys from `key` on, up to `end`, which stays. */
void etcd_delete_range(struct etcd *c, struct etcd_txn *t, const char *key, const char *end);
/* Releases the transaction without running it. */
void etcd_txn_drop(struct etcd_txn *t);
/* Runs and releases the transaction. *done: did the conditions hold? *revision: of the cluster after
 * it; NULL: not wanted. */
enum err_code etcd_commit(struct etcd *c, struct etcd_txn *t, int64_t patience, bool *done,
    int64_t *revision, struct err *e);

/* Lets etcd forget what is older than this revision, which it otherwise keeps. Best effort. */
void etcd_compact(struct etcd *c, int64_t revision, int64_t patience);

#endif
