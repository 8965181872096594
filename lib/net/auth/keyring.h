/* SPDX-License-Identifier: ISC */
#ifndef AUTH_KEYRING_H
#define AUTH_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/keys.h"
#include "core/buf.h"
#include "core/err.h"

/* A keyring holds the keys, tokens and roles of an authorized_keys file. Each line is an entry,
 * with words separated by blanks; blank lines and lines that begin with # are skipped:
 *
 *   worker x25519:BASE64 w7 [expires=2027-01-31]
 *   monitor token:BLAKE2B-256-HEX grafana [expires=2027-01-31T12:00:00Z]
 *
 * Names are 1 to 63 of A-Z a-z 0-9 . _ - and unique, and so are keys and tokens; only a monitor
 * can have a token. A key is refused from the moment of `expires` on (a bare date: from its
 * 00:00 UTC on).
 *
 * A keyring is NOT thread-safe. Pointers to its entries are valid until it is changed. */
enum role {
#define ROLE(id, name, number, help) ROLE_##id = number,
#include "auth/role.def"
#undef ROLE
};
const char *role_name(enum role r);                /* "?" when unknown */
bool role_parse(const char *name, enum role *out); /* "none" is not an answer */

#define KEYRING_NAME_MAX 63
struct keyring_entry {
	enum role role;
	char name[KEYRING_NAME_MAX + 1];
	bool is_token;
	uint8_t pk[KEY_BYTES]; /* X25519 key or, for a token, its hash */
	int64_t expires;       /* seconds since 1970; 0: never */
};
struct keyring;

/* An empty keyring. keyring_free(NULL) is fine. */
struct keyring *keyring_new(void);
/* Pointers to its entries are void afterwards. */
void keyring_free(struct keyring *kr);

/* Parse a whole text; `name` is in messages as "name:LINE: ...". On success *out is a fresh
 * keyring. ERR_FORMAT; ERR_EXISTS for a name or key that occurs twice. */
enum err_code keyring_parse(const char *text, const char *name, struct keyring **out,
    struct err *e);
/* Read a file of at most 1 MiB. It must be regular, owned by us or root, writable by nobody else
 * (ERR_AUTH), and end in a newline (else it is only half written). */
enum err_code keyring_load(const char *path, struct keyring **out, struct err *e);
/* ERR_FORMAT for a bad name or role, ERR_EXISTS for a name or key that is there already. */
enum err_code keyring_add(struct keyring *kr, const struct keyring_entry *entry, struct err *e);
/* False when there is no entry with that name. */
bool keyring_remove(struct keyring *kr, const char *name);

/* The entry of a key, of a bearer token's text (hashed, and compared in constant time), or of a
 * name; NULL: none. `now` is the wall clock in seconds: an expired entry is not found. To find the
 * reason, search again with now = 0. */
const struct keyring_entry *keyring_find(const struct keyring *kr,
    const uint8_t pk[static KEY_BYTES], int64_t now);
/* Only entries with a token are compared, so a public key never passes as one. */
const struct keyring_entry *keyring_find_token(const struct keyring *kr, const char *token,
    int64_t now);
const struct keyring_entry *keyring_find_name(const struct keyring *kr, const char *name);
/* Counts expired entries, too. */
size_t keyring_count(const struct keyring *kr);
/* Call fn for each entry, in the order of the file. fn must not change the keyring. */
void keyring_each(const struct keyring *kr,
    void (*fn)(void *ctx, const struct keyring_entry *entry), void *ctx);

/* Append the entry's line, with its newline, as keyring_parse reads it. */
void keyring_line(const struct keyring_entry *entry, struct buf *out);
/* "YYYY-MM-DD", or that and "THH:MM:SSZ" (RFC 3339), <-> seconds since 1970, above 0. */
bool keyring_date(const char *s, int64_t *out);
/* Appends the date to out: without the time if it is 00:00:00 UTC. */
void keyring_put_date(int64_t seconds, struct buf *out);
/* 24 hexadecimal digits by which people compare keys: the start of BLAKE2b-256 over the 32
 * bytes. */
#define KEYRING_FINGERPRINT 25
/* Writes the digits and a terminating zero. A token's digits are computed from its stored hash,
 * which they do not reveal. */
void keyring_fingerprint(const struct keyring_entry *entry, char out[static KEYRING_FINGERPRINT]);

/* A fresh bearer token of 43 characters that fit into a header and a URL; and the hash that an
 * entry keeps of it. */
void keyring_token_new(char out[static 48]);
/* Writes BLAKE2b-256 of the token's text. */
void keyring_token_hash(const char *token, uint8_t hash[static KEY_BYTES]);

#endif
