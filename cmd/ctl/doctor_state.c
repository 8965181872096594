/* SPDX-License-Identifier: ISC */
#include "doctor.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "etcd/etcd.h"
#include "rundir/rundir.h"

/* Checks the store of the coordinator's state, where it is an etcd: each member, and as the coordinator does
 * it a lease and a key below the prefix. */

#define CONFIG_MAX (1u << 20)
/* A member has this long for its answer; a write to all of them. */
#define MEMBER_PATIENCE (2 * NSEC_PER_SEC)
#define WRITE_PATIENCE  (5 * NSEC_PER_SEC)
/* A coordinator beats every 250 ms (state_store.h): writes that take longer make it seem dead. */
#define SLOW_WRITE (250 * NSEC_PER_MSEC)
#define TTL        2 /* s */

#define MEMBER_REMEDY "start this member again, or repair the way to it"
#define USER_REMEDY \
	"set ETCDCTL_USER, ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY, and give the user a role with " \
	"permission to read and write all keys below the prefix (ps-cluster(5), state)"

/* Is it etcd 3.4 or later? */
static bool is_new_enough(const char *version)
{
	unsigned major = 0, minor = 0;

	return sscanf(version, "%u.%u", &major, &minor) == 2 &&
	    (major > 3 || (major == 3 && minor >= 4));
}

static void check_member(struct doctor *d, const char *host, const struct etcd_member *m,
    const char *cluster)
{
	if (!is_new_enough(m->version))
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "state", host,
		    "use etcd 3.4 or later", "etcd at %s is version %s", host, m->version);
	if (!m->has_leader)
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "state", host, MEMBER_REMEDY,
		    "etcd at %s knows no leader: too few members reach each other", host);
	if (*cluster && strcmp(cluster, m->cluster) != 0)
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "state", host,
		    "give `state` the members of one etcd",
		    "etcd at %s is not a member of the same etcd as the first address", host);
}

/* Asks each member. *version: of one of them. Returns how many have answered. */
static unsigned check_members(struct doctor *d, struct etcd *etcd, char version[static 32])
{
	unsigned n = etcd_members(etcd), answers = 0;
	struct err *why = mem_array(n, sizeof *why);
	char cluster[24] = "", host[NET_TEXT];
	struct etcd_member m;

	for (unsigned i = 0; i < n; i++) {
		why[i] = (struct err){ 0 };
		if (etcd_member_ask(etcd, i, MEMBER_PATIENCE, &m, &why[i]))
			continue;
		etcd_member_address(etcd, i, host);
		check_member(d, host, &m, cluster);
		snprintf(cluster, sizeof cluster, "%s", m.cluster);
		snprintf(version, 32, "%s", m.version);
		answers++;
	}
	for (unsigned i = 0; i < n; i++) {
		etcd_member_address(etcd, i, host);
		if (why[i].code)
			doctor_add_finding(d, 2 * answers > n ? DOCTOR_WARN : DOCTOR_FAIL,
			    DOCTOR_CAUSE, "state", host,
			    why[i].code == ERR_AUTH || why[i].code == ERR_CONFIG ? USER_REMEDY
			                                                         : MEMBER_REMEDY,
			    "%s", why[i].msg);
	}
	free(why);
	return answers;
}

/* Writes a key with a lease, as the owner of the state does, reads it, and removes both. */
static enum err_code try_write(struct etcd *etcd, int64_t *took, struct err *e)
{
	uint64_t id;
	char *key;
	struct etcd_kvs kvs = { 0 };
	struct etcd_txn t;
	int64_t lease = 0, ttl = TTL, begin = clock_now();
	bool alive = false, done = false;
	enum err_code rc = etcd_lease_grant(etcd, &ttl, WRITE_PATIENCE, &lease, e);

	randombytes_buf(&id, sizeof id);
	key = mem_printf("check/%016" PRIx64, id);
	if (!rc)
		rc = etcd_lease_keep(etcd, lease, WRITE_PATIENCE, &alive, e);
	if (!rc && !alive)
		rc = err_set(e, ERR_IO, "etcd has ended a lease of %lld s at once", (long long)ttl);
	etcd_txn_begin(&t);
	etcd_if_created(etcd, &t, key, 0);
	etcd_put(etcd, &t, key, "pskit", 5, lease);
	if (rc)
		etcd_txn_drop(&t);
	else
		rc = etcd_commit(etcd, &t, WRITE_PATIENCE, &done, NULL, e);
	if (!rc)
		rc = etcd_read(etcd, key, 1, WRITE_PATIENCE, &kvs, e);
	if (!rc && kvs.n != 1)
		rc = err_set(e, ERR_IO, "etcd has lost a key that was written");
	*took = clock_now() - begin;
	etcd_kvs_release(&kvs);
	if (lease)
		etcd_lease_revoke(etcd, lease, WRITE_PATIENCE, NULL);
	free(key);
	return rc;
}

static void check_etcd(struct doctor *d, struct etcd *etcd)
{
	char version[32] = "";
	unsigned answers = check_members(d, etcd, version);
	struct err e = { 0 };
	int64_t took;

	if (!answers)
		return;
	if (try_write(etcd, &took, &e)) {
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "state", etcd_where(etcd),
		    e.code == ERR_AUTH || e.code == ERR_CONFIG ? USER_REMEDY : "", "%s", e.msg);
		return;
	}
	/* Two requests for the lease, a write and a read */
	if (took / 4 > SLOW_WRITE)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_PLAIN, "state", etcd_where(etcd),
		    "give etcd a faster disk, or a way with less delay",
		    "requests to %s take %lld ms, and a coordinator that cannot keep its lease of %d s loses it",
		    etcd_where(etcd), (long long)(took / 4 / NSEC_PER_MSEC), TTL);
	doctor_add_ok(d, "state",
	    "%u of %u members of %s answer (etcd %s%s%s); a request takes %.1f ms", answers,
	    etcd_members(etcd), etcd_where(etcd), version, etcd_user(etcd) ? ", user " : "",
	    etcd_user(etcd) ? etcd_user(etcd) : "", (double)took / 4 / NSEC_PER_MSEC);
}

void doctor_state(struct doctor *d, const struct conf *c)
{
	char *url = conf_state_url(c);
	struct etcd *etcd = NULL;

	/* A malformed URL is one of the faults of the cluster file. */
	if (url && !etcd_open(url, &etcd, NULL))
		check_etcd(d, etcd);
	etcd_close(etcd);
	free(url);
}

void doctor_state_of_run(struct doctor *d)
{
	char *path = rundir_path(d->dir, "cluster.json");
	json_t *config = json_parse_file(path, CONFIG_MAX, NULL);
	struct conf conf = { 0 };

	if (config && !conf_from_json(config, &conf, NULL))
		doctor_state(d, &conf);
	conf_release(&conf);
	json_decref(config);
	free(path);
}
