/* SPDX-License-Identifier: ISC */
#ifndef SESSION_IDENTITY_H
#define SESSION_IDENTITY_H

#include "auth/keyring.h"
#include "core/err.h"
#include "core/json.h"
#include "socket/net.h"
#include "wire/conn.h"

/* The identity of a process (key, cluster, psk) and the addresses and public key of its
 * coordinator. On the coordinator's host it is read from the run directory, elsewhere from a
 * join file. No threads of its own; the secrets reload themselves (auth/secrets.h). */
struct identity {
	struct conn_identity conn;
	uint8_t server_key[32]; /* the coordinator's public key */
	char *run_dir;          /* NULL when read from a join file */
	char name[64];
	char *local; /* "unix:PATH" of the coordinator, or NULL */
	/* Lists of addresses (net_list_at) of the coordinators and of their control planes, or
	 * NULL. All of them have server_key: whoever holds its secret half may coordinate this
	 * cluster. */
	char *data;
	char *http;
};

/* Read an identity from RUN/keys/NAME.key, RUN/keys/psk and RUN/keys/coordinator.pub, or from
 * a join file. A psk that is written to the same place later is taken over (auth/secrets.h).
 * On failure *out holds nothing. ERR_FORMAT: a file is malformed. */
enum err_code identity_from_run(const char *run_dir, const char *name, struct identity *out,
    struct err *e);
enum err_code identity_from_join(const char *file, struct identity *out, struct err *e);
/* Takes over a psk that was renewed while this process waited. Before anything uses the identity. */
void identity_look(struct identity *id);
/* Returns `where` (NULL: $PS_CLUSTER), a name that the user has given, when it
 * is a regular file but no model file, and so a join file, else NULL. */
const char *identity_join_file(const char *where);
/* The contents of a join file: the name, role and secret key of its owner, the coordinator's
 * addresses and public key, and the cluster's psk. */
struct identity_join_words {
	const char *cluster, *name, *data, *http;
	enum role role;
	/* server_key: the coordinator's public key; psk: the cluster's; key: the owner's
	 * secret key */
	const uint8_t *server_key, *psk, *key;
};
/* Make the JSON of a join file: a new reference, which holds secrets. */
json_t *identity_join_json(const struct identity_join_words *w);
/* Free the contents and wipe the secrets. */
void identity_release(struct identity *id);

#endif
