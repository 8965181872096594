/* SPDX-License-Identifier: ISC */
#include "coordinator/psk_renewal.h"

#include <sodium.h>

#include "coordinator/state_file.h"
#include "core/file.h"
#include "core/json.h"
#include "rundir/rundir.h"

static void cluster_id_of(const uint8_t psk[static KEY_BYTES],
    char out[static 2 * HS_CLUSTER_BYTES + 1])
{
	uint8_t cluster[HS_CLUSTER_BYTES];

	secrets_cluster(psk, cluster);
	sodium_bin2hex(out, 2 * HS_CLUSTER_BYTES + 1, cluster, sizeof cluster);
}

/* The process that renewed the secret may have ended before its directory was flushed. The state that
 * this process writes knows the cluster by the new secret, and a power cut must not take that back. */
static void keep_renewal(const struct coordinator *coordinator)
{
	const char *run = coordinator->server->cfg.id->run_dir;
	char *keys = run ? rundir_path(run, "keys") : NULL;
	struct err e;

	if (keys && file_sync_dir(keys, &e))
		log_warn(coordinator->server->cfg.log, "%s; the renewal of the secret may be lost",
		    e.msg);
	free(keys);
}

void psk_renewal_begin(struct coordinator *coordinator)
{
	struct state *state = coordinator->server->state;
	struct secret_pair pair;
	char before[2 * HS_CLUSTER_BYTES + 1];

	mutex_assert_held(&coordinator->lock);
	secrets_both(coordinator->server->cfg.id->conn.secrets, &pair);
	cluster_id_of(pair.now, coordinator->cluster_id);
	cluster_id_of(pair.before, before);
	if (pair.until && state && strcmp(state->cluster_id, before) == 0)
		state->cluster_id = coordinator->cluster_id;
	if (pair.until)
		keep_renewal(coordinator);
	coordinator->secret_until = pair.until;
	sodium_memzero(&pair, sizeof pair);
}

void psk_renewal_update_http(struct coordinator *coordinator)
{
	struct secret_pair pair;

	mutex_assert_held(&coordinator->lock);
	secrets_both(coordinator->server->cfg.id->conn.secrets, &pair);
	if (coordinator->http)
		http_server_secrets(coordinator->http, pair.now, pair.before, pair.until);
	sodium_memzero(&pair, sizeof pair);
}

void psk_renewal_tick(struct coordinator *coordinator)
{
	int64_t now = clock_wall() / NSEC_PER_SEC;
	struct secret_pair pair;
	char *keys;

	mutex_assert_held(&coordinator->lock);
	if (!coordinator->secret_until || now < coordinator->secret_until ||
	    !coordinator->server->cfg.id->run_dir || !state_file_has_secret(coordinator))
		return;
	keys = rundir_path(coordinator->server->cfg.id->run_dir, "keys");
	secrets_both(coordinator->server->cfg.id->conn.secrets, &pair);
	secrets_tidy_dir(keys, &pair, now);
	coordinator->secret_until = 0;
	sodium_memzero(&pair, sizeof pair);
	free(keys);
}

/* May the key be renewed now? */
static enum err_code check_renewal(struct coordinator *coordinator, bool force, struct err *e)
{
	int64_t left = coordinator->secret_until - clock_wall() / NSEC_PER_SEC;

	mutex_assert_held(&coordinator->lock);
	if (!force && left > 0)
		return err_set(e, ERR_EXISTS,
		    "the secret was renewed before, with the promise that the previous one is accepted for %lld s "
		    "more: renew it again after that, or at once with force (--force), which shuts out members "
		    "that have not read the present one",
		    (long long)left);
	/* After two renewals the files would not have the secret by which the saved state knows the
	 * cluster. */
	if (!state_file_await_secret(coordinator))
		return err_set(e, ERR_NOTREADY,
		    "the coordinator cannot write to state.json that the secret was renewed before (its log says "
		    "why): renew it again when it can");
	return ERR_OK;
}

/* Replace the files first: whenever this process ends, the next one continues with the secret
 * that is in them. */
enum err_code psk_renewal_rotate(struct coordinator *coordinator, const struct psk_renewal *renewal,
    struct err *e)
{
	struct secrets *secrets = coordinator->server->cfg.id->conn.secrets;
	char *keys = rundir_path(coordinator->server->cfg.id->run_dir, "keys");
	struct secret_pair pair;
	enum err_code rc;

	coordinator_lock(coordinator);
	rc = check_renewal(coordinator, renewal->force, e);
	if (!rc)
		rc = secrets_rotate_dir(keys, renewal->until, e);
	if (!rc) {
		secrets_look(secrets, 0);
		secrets_both(secrets, &pair);
		cluster_id_of(pair.now, coordinator->cluster_id);
		coordinator->secret_until = pair.until;
		psk_renewal_update_http(coordinator);
		coordinator_event(coordinator, EVENT_psk_rotated,
		    "the cluster has a new secret, by %s; the old one is accepted for %lld s",
		    renewal->who, (long long)(renewal->until - clock_wall() / NSEC_PER_SEC));
		coord_publish_view(coordinator->coord);
		sodium_memzero(&pair, sizeof pair);
		state_file_await_secret(coordinator);
	}
	coordinator_commit_unlock(coordinator);
	free(keys);
	return rc;
}
