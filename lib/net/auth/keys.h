/* SPDX-License-Identifier: ISC */
#ifndef AUTH_KEYS_H
#define AUTH_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/* X25519 key pairs and the cluster's pre-shared key (psk): generate, load, store, print. No state
 * and no locks; any thread. */
#define KEY_BYTES    32
#define PSK_WORD     "pskit-psk1"
#define SECRET_WORD  "pskit-secret-key1"
#define KEY_TEXT_LEN 44 /* base64 of 32 bytes, padded */

/* An X25519 key pair. Wipe with key_pair_wipe when done. */
struct key_pair {
	uint8_t pk[KEY_BYTES], sk[KEY_BYTES];
};

/* Prepare libsodium. Call it at the start of every program, before any other function of this
 * folder. May be called again, from any thread. */
enum err_code key_init(struct err *e);

/* Draw a fresh key pair. */
void key_pair_generate(struct key_pair *k);
/* The pair that belongs to a secret key. */
void key_pair_from_secret(struct key_pair *k, const uint8_t sk[static KEY_BYTES]);
/* Overwrites both keys in a way that the compiler does not remove. */
void key_pair_wipe(struct key_pair *k);

/* Secret key files hold one line, "pskit-secret-key1 BASE64\n" (SECRET_WORD); files of the
 * cluster's secret hold "pskit-psk1 BASE64\n" (PSK_WORD).
 *
 * Loading refuses (ERR_AUTH) a file that others may read (naming the chmod to
 * run), a symbolic link, anything but a regular file, an owner that is neither
 * the effective user nor root, and any other contents. ERR_NOTFOUND when it
 * does not exist. The outcome is untouched on failure. */
enum err_code key_pair_load(const char *path, struct key_pair *k, struct err *e);
/* Reads the cluster's secret; with the rules and errors of key_pair_load. */
enum err_code psk_load(const char *path, uint8_t psk[static KEY_BYTES], struct err *e);

/* Draw a fresh secret and write it to path, which must not exist (ERR_EXISTS), with mode 0600,
 * synced. After a failure there is no file. */
enum err_code key_pair_create(const char *path, struct key_pair *k, struct err *e);
/* Draws and writes the cluster's secret; with the rules and errors of key_pair_create. */
enum err_code psk_create(const char *path, uint8_t psk[static KEY_BYTES], struct err *e);

/* 32 bytes <-> the 44 characters of padded base64 (RFC 4648, section 4). Only the canonical form
 * is accepted, without characters before or after it. */
void key_to_text(const uint8_t k[static KEY_BYTES], char out[static 48]);
/* False, and k untouched, for any other text. */
bool key_from_text(const char *s, uint8_t k[static KEY_BYTES]);

#endif
