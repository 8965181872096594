#ifndef AUTH_SECRETS_H
#define AUTH_SECRETS_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/handshake.h"

/* The cluster's secret, of a process that lives while it is renewed: the one that is in force,
 * and for a grace the one before it.  Where it lies (a run directory's keys/psk and keys/psk.old,
 * or a join file) is looked at again when a handshake begins, or has been refused: so a new
 * secret needs nobody to carry it to the processes of a run directory.
 *
 * Thread-safe. */
struct secrets;

struct secret_pair {
	uint8_t now[KEY_BYTES], before[KEY_BYTES];
	int64_t until;                  /* wall seconds up to which `before` holds; 0: there is none */
};

/* path is looked at, read() reads what it stands for: *pair, which holds what was known.  Both
 * strings are taken over, to be freed; read may be NULL, and path then, for a secret that
 * stays. */
typedef enum err_code secrets_read(const char *where, struct secret_pair *pair, struct err *e);
struct secrets *secrets_new(const struct key_pair *key, const struct secret_pair *pair, char *path, char *where,
                            secrets_read *read);
void secrets_free(struct secrets *s);

/* Read again when the file is another one than last time; but not when that was less than
 * `pause` ns ago.  True: something has changed. */
bool secrets_look(struct secrets *s, int64_t pause);

struct secret {
	struct hs_identity id;
	uint8_t cluster[HS_CLUSTER_BYTES];
};
/* The server's side: what is accepted now, the present one first; 1 or 2.  To be wiped. */
size_t secrets_accepted(struct secrets *s, struct secret out[static 2]);
/* The client's side: what to offer to the server of this key: the present one, unless that
 * was refused last time and the one before still holds.  Looks first.  To be wiped. */
void secrets_offered(struct secrets *s, const uint8_t server[static KEY_BYTES], struct secret *out);
void secrets_refused(struct secrets *s, const uint8_t server[static KEY_BYTES]);
/* Both, as they are known. */
void secrets_both(struct secrets *s, struct secret_pair *out);

/* The cluster's number, made from its secret. */
void secrets_cluster(const uint8_t psk[static KEY_BYTES], uint8_t out[static HS_CLUSTER_BYTES]);

/* In a directory of keys: the files psk and psk.old, of mode 0600.  A missing psk.old is no
 * error. */
enum err_code secrets_read_dir(const char *dir, struct secret_pair *pair, struct err *e);
/* Draw a fresh secret; the one that was holds until then.  Durable, in an order that leaves
 * one that is in force whenever it is cut short. */
enum err_code secrets_rotate_dir(const char *dir, int64_t until, struct err *e);
/* psk.old goes when its time is over. */
void secrets_tidy_dir(const char *dir, const struct secret_pair *pair, int64_t now);

#endif
