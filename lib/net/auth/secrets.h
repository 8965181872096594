/* SPDX-License-Identifier: ISC */
#ifndef AUTH_SECRETS_H
#define AUTH_SECRETS_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/handshake.h"

/* The cluster's pre-shared key in a running process, while the coordinator may renew it: the
 * present key and, for a grace period, the previous one. The source (a run directory's keys/psk
 * and keys/psk.old, or a join file) is checked again when a handshake begins or was refused, so
 * the processes of a run directory notice a new key by themselves.
 *
 * Thread-safe: each struct secrets has a lock, which is held while its files are read. No other
 * lock is taken under it. */
struct secrets;

struct secret_pair {
	uint8_t now[KEY_BYTES], before[KEY_BYTES];
	int64_t until; /* wall seconds until which `before` is accepted; 0: there is none */
};

/* path is the file whose change is noticed; read(where) then reads *pair, which has the known
 * keys before. Takes ownership of both strings. For a key that never changes read is NULL, and
 * so is path. */
typedef enum err_code secrets_read(const char *where, struct secret_pair *pair, struct err *e);
struct secrets *secrets_new(const struct key_pair *key, const struct secret_pair *pair, char *path,
    char *where, secrets_read *read);
void secrets_free(struct secrets *s);

/* Read the key again if the file has changed, but not within `pause` ns of the last check. True:
 * the key has changed. */
bool secrets_look(struct secrets *s, int64_t pause);

struct secret {
	struct hs_identity id;
	uint8_t cluster[HS_CLUSTER_BYTES];
};
/* Server: the keys accepted now, 1 or 2, the present one first. The caller wipes them. */
size_t secrets_accepted(struct secrets *s, struct secret out[static 2]);
/* Client: the key to offer to the server with this public key: the present one, unless the
 * server refused it last time and the previous one is still accepted. Checks the file first. The
 * caller wipes it. Report a refusal with secrets_refused. */
void secrets_offered(struct secrets *s, const uint8_t server[static KEY_BYTES], struct secret *out);
/* The server with this public key has refused the key that was offered: offer it the other one
 * next. */
void secrets_refused(struct secrets *s, const uint8_t server[static KEY_BYTES]);
/* Copy both keys, without checking the file. */
void secrets_both(struct secrets *s, struct secret_pair *out);

/* The cluster's id, which is derived from its pre-shared key. */
void secrets_cluster(const uint8_t psk[static KEY_BYTES], uint8_t out[static HS_CLUSTER_BYTES]);

/* Read the files psk and psk.old, of mode 0600, in a directory of keys. A missing psk.old is not an
 * error. */
enum err_code secrets_read_dir(const char *dir, struct secret_pair *pair, struct err *e);
/* Draw a fresh key; the previous one is accepted until `until` (wall seconds). Durable; the
 * order of writes leaves a valid key whenever it is interrupted. */
enum err_code secrets_rotate_dir(const char *dir, int64_t until, struct err *e);
/* Remove psk.old when its time is over. */
void secrets_tidy_dir(const char *dir, const struct secret_pair *pair, int64_t now);

#endif
