#ifndef CLIENT_IDENTITY_H
#define CLIENT_IDENTITY_H

#include <jansson.h>

#include "auth/keyring.h"
#include "base/err.h"
#include "wire/conn.h"
#include "wire/net.h"

/* Who a process is, and where and who its coordinator is: from the run
 * directory on the coordinator's host, or from a join file elsewhere. */
struct identity {
	struct conn_identity conn;
	uint8_t server_key[32];         /* the coordinator's public key */
	char *run_dir;                  /* NULL with a join file */
	char name[64];
	char *local;                    /* "unix:PATH" of the coordinator, or NULL */
	char *data;                     /* "host:port" of the coordinator, or NULL */
	char *http;                     /* "host:port" of its control plane, or NULL */
	int dirfd;                      /* kept open for `local` when its path is long; -1 */
};

/* RUN/keys/NAME.key, RUN/keys/psk, RUN/keys/coordinator.pub.  Of either, a secret that comes to
 * stand there later is taken over (auth/secrets.h). */
enum err_code identity_from_run(const char *run_dir, const char *name, struct identity *out, struct err *e);
enum err_code identity_from_join(const char *file, struct identity *out, struct err *e);
/* The join file that is meant where a run directory could be named, too: where (NULL: $PS_CLUSTER)
 * when that is a file.  NULL: it is none. */
const char *identity_join_file(const char *where);
/* What a join file holds: who its owner is to be, where and who the coordinator is, and the cluster's
 * secret.  A new reference; a secret itself. */
struct join_words {
	const char *cluster, *name, *data, *http;
	enum role role;
	const uint8_t *server_key, *psk, *key;  /* of the coordinator, of all, and the owner's secret one */
};
json_t *identity_join(const struct join_words *w);
void identity_release(struct identity *id);

#endif
