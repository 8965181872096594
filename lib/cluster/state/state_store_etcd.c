/* SPDX-License-Identifier: ISC */
/* The state store in etcd (etcd/etcd.h). All keys are under the prefix of its URL:
 *
 *   owner                 the record of the owner (msg/owner.h), bound to its lease, so that it goes
 *                         when the owner has not kept the lease alive
 *   standby/ID            the place of the process ID, which stands by, bound to its lease
 *   index                 { "revision", "parts": { PART: { "file", "size", "blake2b", "revision" } },
 *                         "lease_log" }: which keys have the parts of the state and the log
 *   state/ID-N/PART/K     piece K of a part, as write N of the owner ID has left it; "file" is
 *                         "state/ID-N/PART"
 *   log/ID/SEQ            records of the log of leases of the owner ID, in order
 *
 *   logged                which write to the log was the last one: ID-N
 *
 * Every write is a transaction with the condition that the key `owner` is still the one that this
 * process has written, by its revision. A lease says only when another process may try to become the
 * owner: etcd's leader may end one late, and an owner that was stopped may go on after its own has
 * ended. Without the condition such an owner would write over its successor's state.
 *
 * A write puts the pieces of the parts that have changed first, in as many transactions as their
 * length needs, under names that no write used before; the last transaction also puts the index, and
 * removes the pieces that it does not name any more. So a reader finds all of the former parts or all
 * of the new ones. A write without an answer may have been done or not. Both are fine, because the
 * next write puts the same parts again (state_store_write), under other names. The pieces of writes that have
 * failed are removed by writes that succeed, some at each, as etcd limits the operations of a transaction.
 *
 * The revision that is compared is that of the owner's key and not of the lease, because it is the
 * key that a successor replaces.
 *
 * A member of etcd that stood still may do a write that it got long ago, after the same write was made at
 * another member, and others after it. So every write also has the condition that `index`, or `logged`, is
 * as the write before has left it, and replaces that: it is done at most once, and never after a later
 * one. Otherwise the index would name pieces that the later write has removed.
 *
 * Waiting for etcd: a write is tried for WRITE_PATIENCE, and the caller tries again after that; a
 * beat for a part of the lease only, because an answer that comes later than that is of no use. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "etcd/etcd.h"
#include "msg/state.h"
#include "state/owner_file.h"
#include "state/owner_process.h"
#include "state/state_store.h"

/* A lease lasts this long, in seconds: etcd makes less than 2 into 2. */
#define TTL            2
#define READ_PATIENCE  (3 * NSEC_PER_SEC)
#define WRITE_PATIENCE (5 * NSEC_PER_SEC)
/* watch reads the index this often. */
#define POLL (100 * NSEC_PER_MSEC)
/* How long etcd keeps the history of the keys, of which nobody reads any */
#define HISTORY (5 * 60 * NSEC_PER_SEC)
/* A part is divided into pieces of this length, and a transaction has at most this many of them. */
#define PIECE      ((size_t)256 << 10)
#define TXN_PIECES (ETCD_VALUE_MAX / PIECE)
/* How many parts of writes that have failed a write removes. etcd permits 128 operations in a transaction
 * (--max-txn-ops), and a write has at most TXN_PIECES + STATE_PARTS + 1 others. */
#define REMOVED_AT_ONCE 64
/* A reader reads again when the owner has replaced what it was reading. */
#define READ_TRIES 5

/* A key that every write of one kind compares and replaces. */
struct guard {
	const char *key;
	int64_t revision; /* of its last write; 0: there is no such key */
	char *mark; /* its value by the write that is under way, or was the last one; NULL: none */
};

struct state_etcd {
	struct state_store store;
	struct etcd *etcd;
	int64_t lease; /* of the owner's key, or of the standby's; 0: none */
	bool shares;   /* what the standby's key says of its run directory */
	/* Every write is guarded by this revision of the owner's key; 0: this process is not the owner */
	int64_t owner_revision;
	struct guard index, logged; /* of the state, and of the log, whose thread alone uses it */
	bool knows_logged;
	uint64_t appends;  /* N of the last write to the log, also of one that has failed */
	uint64_t revision; /* N of the last write, also of one that has failed */
	/* what the index says about each part; NULL: nothing */
	json_t *entry[STATE_PARTS];
	/* Names of parts, each with a NUL, that the next write that succeeds removes */
	struct buf replaced;
	char *former_log; /* the log that the state read last names; NULL: none */
	/* The log of this owner, whose thread alone uses these once it runs. */
	char *log;               /* "log/ID"; NULL: none */
	uint64_t seq;            /* of the next key */
	uint64_t kept;           /* the first key that was not dropped */
	bool drop;               /* the keys before `seq` are to be dropped */
	_Atomic int64_t kept_at; /* when the lease was kept alive last */
	/* The owner's thread alone uses these. */
	int64_t compact_at, compact_to; /* forget revisions before compact_to at that time */
};

static struct state_etcd *of_store(struct state_store *s)
{
	return (struct state_etcd *)s;
}

static bool has_etcd_url(const struct state_store_config *cfg)
{
	return cfg->url && etcd_is_url(cfg->url);
}

/* conf_check has refused a URL that is malformed. */
static struct state_store *open_etcd(const struct state_store_config *cfg)
{
	struct state_etcd *f = mem_alloc(sizeof *f);

	f->index.key = "index";
	f->logged.key = "logged";
	if (etcd_open(cfg->url, &f->etcd, NULL))
		abort();
	return &f->store;
}

static void forget_state(struct state_etcd *f)
{
	for (size_t i = 0; i < STATE_PARTS; i++) {
		json_decref(f->entry[i]);
		f->entry[i] = NULL;
	}
	free(f->former_log);
	f->former_log = NULL;
}

/* The owner's lease stays until its time is over: another process must not take over while members
 * still have sessions with this one. That of a standby goes. */
static void close_etcd(struct state_store *s)
{
	struct state_etcd *f = of_store(s);

	if (f->lease && !f->owner_revision)
		etcd_lease_revoke(f->etcd, f->lease, STATE_BEAT, NULL);
	etcd_close(f->etcd);
	forget_state(f);
	buf_release(&f->replaced);
	free(f->index.mark);
	free(f->logged.mark);
	free(f->log);
	free(f);
}

static const char *name_etcd(const struct state_store *s)
{
	return etcd_where(((const struct state_etcd *)s)->etcd);
}

/* ---- the owner ---- */

/* Reads the owner's record. *revision: of its key; 0: there is no owner. */
static enum err_code read_owner(struct state_etcd *f, int64_t patience, struct owner *out,
    json_t **document, int64_t *revision, struct err *e)
{
	struct etcd_kvs kvs;
	enum err_code rc = etcd_read(f->etcd, "owner", 1, patience, &kvs, e);

	*document = NULL;
	*revision = 0;
	if (!rc && kvs.n) {
		*document = json_parse((const char *)kvs.kv->value.data, kvs.kv->value.len, 4096,
		    NULL);
		*revision = kvs.kv->mod_revision;
	}
	owner_decode(*document, out);
	etcd_kvs_release(&kvs);
	return rc;
}

/* Says who the owner is, after this process has found that it is not. ERR_FENCED; ERR_CLOSED: there is
 * none, because the lease has ended; ERR_IO: it cannot be read. */
static enum err_code report_owner(struct state_etcd *f, struct err *e)
{
	json_t *document;
	struct owner o;
	int64_t revision;
	enum err_code rc = read_owner(f, WRITE_PATIENCE, &o, &document, &revision, e);

	if (rc)
		rc = ERR_IO;
	else if (!revision)
		rc = err_set(e, ERR_CLOSED,
		    "etcd has ended this coordinator's lease, because it could not be kept alive for %d s",
		    TTL);
	else if (revision != f->owner_revision)
		rc = err_set(e, ERR_FENCED,
		    "another coordinator has taken over %s (host %s, pid %lld); this one ends",
		    name_etcd(&f->store), *o.host ? o.host : "?", (long long)o.pid);
	else
		rc = err_set(e, ERR_IO, "etcd has refused a write of its owner");
	json_decref(document);
	return rc;
}

/* Keeps the lease alive once. *alive: etcd still has it. */
static enum err_code keep_once(struct state_etcd *f, bool *alive, struct err *e)
{
	int64_t sent = clock_now();
	enum err_code rc = etcd_lease_keep(f->etcd, f->lease, 2 * STATE_BEAT, alive, e);

	atomic_store(&f->kept_at, sent);
	if (!rc && *alive)
		atomic_store(&f->store.owned_until, sent + TTL * NSEC_PER_SEC);
	return rc;
}

/* Before the owner's thread beats, a process that takes over reads the state and writes its first one. A
 * slow etcd may need longer for these requests than a lease lasts, and then nobody would ever take over.
 * So a request keeps the lease alive when no beat has done so for a while. */
static void keep_if_due(struct state_etcd *f)
{
	bool alive;

	if (f->owner_revision && clock_now() - atomic_load(&f->kept_at) > 2 * STATE_BEAT)
		keep_once(f, &alive, NULL);
}

static void begin_guarded(struct state_etcd *f, struct etcd_txn *t)
{
	etcd_txn_begin(t);
	etcd_if_written(f->etcd, t, "owner", f->owner_revision);
}

static void begin_write(struct state_etcd *f, struct etcd_txn *t, const struct guard *g)
{
	begin_guarded(f, t);
	etcd_if_written(f->etcd, t, g->key, g->revision);
}

static void put_guard(struct state_etcd *f, struct etcd_txn *t, struct guard *g, const char *text)
{
	free(g->mark);
	g->mark = mem_strdup(text);
	etcd_put(f->etcd, t, g->key, text, strlen(text), 0);
}

/* Reads the guard. *is_marked: the write that is under way has replaced it. */
static enum err_code read_guard(struct state_etcd *f, struct guard *g, bool *is_marked,
    struct err *e)
{
	struct etcd_kvs kvs;
	enum err_code rc = etcd_read(f->etcd, g->key, 1, WRITE_PATIENCE, &kvs, e);
	const struct buf *value = !rc && kvs.n ? &kvs.kv->value : NULL;

	*is_marked = value && g->mark && value->len == strlen(g->mark) &&
	    memcmp(value->data, g->mark, value->len) == 0;
	if (!rc)
		g->revision = value ? kvs.kv->mod_revision : 0;
	etcd_kvs_release(&kvs);
	return rc;
}

/* Runs a transaction that begin_guarded has begun. */
static enum err_code commit_guarded(struct state_etcd *f, struct etcd_txn *t, struct err *e)
{
	enum err_code rc;
	bool done;

	keep_if_due(f);
	rc = etcd_commit(f->etcd, t, WRITE_PATIENCE, &done, NULL, e);
	return rc ? rc : done ? ERR_OK : report_owner(f, e);
}

/* Runs a transaction that begin_write has begun. last: it replaces the guard. If its conditions did not hold,
 * it may have been done by an earlier try whose answer was lost; or a write before it, which had failed for
 * want of an answer, was done just now, and the caller tries again. */
static enum err_code commit_write(struct state_etcd *f, struct etcd_txn *t, struct guard *g,
    bool last, struct err *e)
{
	int64_t revision;
	bool done, is_marked = false;
	enum err_code rc = etcd_commit(f->etcd, t, WRITE_PATIENCE, &done, &revision, e);

	if (rc)
		return rc;
	if (done && last)
		g->revision = revision;
	if (done)
		return ERR_OK;
	rc = read_guard(f, g, &is_marked, e);
	if (rc || (last && is_marked))
		return rc;
	return report_owner(f, e);
}

static enum err_code check_owner_key(struct state_store *s, struct err *e)
{
	struct state_etcd *f = of_store(s);
	json_t *document;
	struct owner o;
	int64_t revision;
	enum err_code rc = read_owner(f, READ_PATIENCE, &o, &document, &revision, e);

	if (!rc && revision && owner_lives_here(&o))
		rc = err_set(e, ERR_EXISTS,
		    "a coordinator of %s is already running on this host (pid %lld)", name_etcd(s),
		    (long long)o.pid);
	json_decref(document);
	return rc;
}

/* A lease for this process. *sent: when it was asked for, from which its time counts. */
static enum err_code take_lease(struct state_etcd *f, int64_t *sent, struct err *e)
{
	int64_t ttl = TTL;

	*sent = clock_now();
	return f->lease ? ERR_OK : etcd_lease_grant(f->etcd, &ttl, READ_PATIENCE, &f->lease, e);
}

static char *standby_key(const struct state_etcd *f)
{
	return mem_printf("standby/%016" PRIx64, f->store.cfg.incarnation);
}

/* Puts the owner's key, if the key is the one with this revision (0: there is none). *done: it is put, or
 * was put by an earlier try whose answer was lost. */
static enum err_code put_owner(struct state_etcd *f, int64_t former, bool *done, struct err *e)
{
	json_t *self = owner_describe_self(f->store.cfg.incarnation), *document;
	char *text = json_text(self), *standby = standby_key(f);
	struct etcd_txn t;
	struct owner o;
	int64_t revision;
	enum err_code rc;

	etcd_txn_begin(&t);
	etcd_if_written(f->etcd, &t, "owner", former);
	etcd_put(f->etcd, &t, "owner", text, strlen(text), f->lease);
	etcd_delete(f->etcd, &t, standby);
	rc = etcd_commit(f->etcd, &t, READ_PATIENCE, done, &f->owner_revision, e);
	free(text);
	free(standby);
	json_decref(self);
	if (rc || *done)
		return rc;
	rc = read_owner(f, READ_PATIENCE, &o, &document, &revision, e);
	*done = !rc && revision && o.incarnation == f->store.cfg.incarnation;
	f->owner_revision = *done ? revision : 0;
	json_decref(document);
	return rc;
}

/* A standby finds by this record that it has the same run directory. It decides nothing. */
static void leave_record(const struct state_store *s)
{
	struct err e = { 0 };

	if (s->cfg.run_dir && owner_file_take(s->cfg.run_dir, s->cfg.incarnation, &e) &&
	    e.code != ERR_EXISTS)
		log_warn(s->cfg.log, "%s", e.msg);
}

/* An owner that was killed on this host is replaced at once; otherwise its lease must have ended. */
static enum err_code take_owner_key(struct state_store *s, struct err *e)
{
	struct state_etcd *f = of_store(s);
	json_t *document = NULL;
	bool alive = true, done = false;
	int64_t sent, revision;
	struct owner o;
	enum err_code rc = take_lease(f, &sent, e);

	/* The lease may be one of an earlier call. */
	if (!rc)
		rc = etcd_lease_keep(f->etcd, f->lease, WRITE_PATIENCE, &alive, e);
	if (!rc && !alive) {
		f->lease = 0;
		rc = take_lease(f, &sent, e);
	}
	if (!rc)
		rc = read_owner(f, READ_PATIENCE, &o, &document, &revision, e);
	if (!rc && (!revision || owner_died_here(&o)))
		rc = put_owner(f, revision, &done, e);
	if (!rc && !done)
		rc = err_set(e, ERR_NOTREADY,
		    "a coordinator of %s is alive, or was a moment ago (host %s, pid %lld): begin this one "
		    "with --standby to take over when it is not",
		    name_etcd(s), *o.host ? o.host : "?", (long long)o.pid);
	if (!rc) {
		atomic_store(&f->kept_at, sent);
		atomic_store(&s->owned_until, sent + TTL * NSEC_PER_SEC);
		leave_record(s);
	}
	json_decref(document);
	return rc;
}

static enum err_code verify_owner_key(struct state_store *s, struct err *e)
{
	struct state_etcd *f = of_store(s);
	json_t *document;
	struct owner o;
	int64_t revision;
	enum err_code rc = read_owner(f, WRITE_PATIENCE, &o, &document, &revision, e);

	json_decref(document);
	if (rc)
		return err_prefix(e, "it is not known whether another coordinator has taken over");
	return revision && revision == f->owner_revision ? ERR_OK : report_owner(f, e);
}

/* Compaction goes to what was the present revision HISTORY ago, as Kubernetes does it, so that others who
 * use this etcd can still read what is younger. */
static void compact(struct state_etcd *f, int64_t now)
{
	struct etcd_txn t;
	bool done;

	if (now < f->compact_at)
		return;
	if (f->compact_to)
		etcd_compact(f->etcd, f->compact_to, STATE_BEAT);
	etcd_txn_begin(&t);
	if (etcd_commit(f->etcd, &t, STATE_BEAT, &done, &f->compact_to, NULL))
		f->compact_to = 0;
	f->compact_at = now + HISTORY;
}

static enum err_code keep_lease(struct state_store *s, struct err *e)
{
	struct state_etcd *f = of_store(s);
	bool alive;
	enum err_code rc = keep_once(f, &alive, e);

	if (rc) {
		err_prefix(e, "the coordinator's lease is not kept alive");
		return e->code = ERR_IO;
	}
	if (!alive)
		return err_set(e, ERR_CLOSED,
		    "etcd has ended this coordinator's lease, because it could not be kept alive for %d s",
		    TTL);
	compact(f, clock_now());
	return ERR_OK;
}

/* ---- standbys ---- */

static enum err_code put_standby(struct state_etcd *f, const struct state_standby *self,
    struct err *e)
{
	char *key = standby_key(f), *text;
	json_t *place = state_standby_encode(self);
	struct etcd_txn t;
	int64_t sent;
	bool done;
	enum err_code rc = take_lease(f, &sent, e);

	text = json_text(place);
	etcd_txn_begin(&t);
	etcd_put(f->etcd, &t, key, text, strlen(text), f->lease);
	if (rc)
		etcd_txn_drop(&t);
	else
		rc = etcd_commit(f->etcd, &t, WRITE_PATIENCE, &done, NULL, e);
	/* The key may not have been put: the next call puts it, with another lease. */
	if (rc)
		f->lease = 0;
	json_decref(place);
	free(text);
	free(key);
	return rc;
}

/* Is the run directory of this process that of the owner? Each owner leaves its record there. */
static bool is_run_dir_of(const struct state_store *s, uint64_t owner)
{
	uint64_t found;
	bool died;

	return s->cfg.run_dir && owner_file_read(s->cfg.run_dir, &found, &died) && found == owner;
}

static enum err_code stand_by_etcd(struct state_store *s, const struct state_standby *self,
    bool *free, struct err *e)
{
	struct state_etcd *f = of_store(s);
	struct state_standby now = *self;
	bool alive = f->lease != 0, none;
	json_t *document;
	struct owner o;
	int64_t revision;
	enum err_code rc = ERR_OK;

	*free = false;
	if (alive)
		rc = etcd_lease_keep(f->etcd, f->lease, WRITE_PATIENCE, &alive, e);
	if (!rc)
		rc = read_owner(f, WRITE_PATIENCE, &o, &document, &revision, e);
	if (rc)
		return rc;
	none = !revision || owner_died_here(&o);
	now.shares = revision && is_run_dir_of(s, o.incarnation);
	json_decref(document);
	if (!alive)
		f->lease = 0;
	if (!alive || now.shares != f->shares)
		rc = put_standby(f, &now, e);
	f->shares = now.shares;
	*free = !rc && none;
	return rc;
}

static bool list_etcd_standbys(struct state_store *s, struct state_standbys *out)
{
	struct etcd_kvs kvs;

	out->n = 0;
	if (etcd_read(of_store(s)->etcd, "standby/", STATE_STANDBYS, STATE_BEAT, &kvs, NULL))
		return false;
	for (size_t i = 0; i < kvs.n && out->n < STATE_STANDBYS; i++) {
		json_t *document = json_parse((const char *)kvs.kv[i].value.data,
		    kvs.kv[i].value.len, 4096, NULL);

		out->n += state_standby_decode(document, &out->at[out->n]);
		json_decref(document);
	}
	etcd_kvs_release(&kvs);
	return true;
}

/* ---- reading ---- */

/* Reads the index. *there: there is one; *written: the revision of its last write. */
static enum err_code read_index(struct state_etcd *f, struct state_index *out, json_t **document,
    bool *there, int64_t *written, struct err *e)
{
	struct etcd_kvs kvs;
	enum err_code rc = etcd_read(f->etcd, "index", 1, READ_PATIENCE, &kvs, e);

	*document = NULL;
	*there = !rc && kvs.n;
	*written = *there ? kvs.kv->mod_revision : 0;
	if (*there) {
		*document = json_parse((const char *)kvs.kv->value.data, kvs.kv->value.len,
		    ETCD_VALUE_MAX, e);
		rc = *document ? state_index_decode(*document, out, e) : e->code;
	}
	etcd_kvs_release(&kvs);
	return rc ? err_prefix(e, "%s", name_etcd(&f->store)) : ERR_OK;
}

/* Reads the pieces of a part. ERR_NOTFOUND: they are not all there. */
static enum err_code read_part(struct state_etcd *f, const json_t *entry, struct buf *out,
    struct err *e)
{
	char digest[DIGEST_HEX], *prefix;
	struct state_file file;
	struct etcd_kvs kvs;
	enum err_code rc = state_file_decode(entry, &file, e);

	if (rc)
		return rc;
	keep_if_due(f);
	prefix = mem_printf("%s/", file.file);
	rc = etcd_read(f->etcd, prefix, TXN_PIECES, READ_PATIENCE, &kvs, e);
	for (size_t i = 0; i < kvs.n; i++)
		buf_append(out, kvs.kv[i].value.data, kvs.kv[i].value.len);
	etcd_kvs_release(&kvs);
	free(prefix);
	if (rc)
		return rc;
	if (out->len != (size_t)file.size)
		return err_set(e, ERR_NOTFOUND, "%s: \"%s\" has %zu of %lld bytes",
		    name_etcd(&f->store), file.file, out->len, (long long)file.size);
	digest_of(out->data, out->len, digest);
	return strcmp(digest, file.blake2b) == 0
	    ? ERR_OK
	    : err_set(e, ERR_FORMAT, "%s: the digest of \"%s\" is wrong", name_etcd(&f->store),
	          file.file);
}

/* Reads the state once. ERR_NOTFOUND: it was replaced meanwhile, or pieces of it are missing. */
static enum err_code read_once(struct state_etcd *f, unsigned which, struct state_values *out,
    struct err *e)
{
	struct state_index index;
	json_t *document;
	int64_t written;
	bool there;
	enum err_code rc = read_index(f, &index, &document, &there, &written, e);

	forget_state(f);
	if (!rc)
		f->index.revision = written;
	if (!rc && there) {
		out->revision = (uint64_t)index.revision;
		/* No name is used twice, not even after a write that has failed. */
		if (out->revision > f->revision)
			f->revision = out->revision;
		f->former_log = index.lease_log ? mem_strdup(index.lease_log) : NULL;
		for (enum state_part i = 0; !rc && i < STATE_PARTS; i++) {
			f->entry[i] = json_incref(json_object_get(index.parts, state_part_name[i]));
			if (f->entry[i] && (which & 1u << i))
				rc = read_part(f, f->entry[i], &out->part[i], e);
		}
	}
	json_decref(document);
	return rc;
}

static enum err_code read_etcd(struct state_store *s, unsigned which, struct state_values *out,
    struct err *e)
{
	enum err_code rc = ERR_NOTFOUND;

	for (int i = 0; rc == ERR_NOTFOUND && i < READ_TRIES; i++) {
		for (size_t k = 0; k < STATE_PARTS; k++)
			buf_clear(&out->part[k]);
		rc = read_once(of_store(s), which, out, e);
	}
	if (rc == ERR_NOTFOUND)
		rc = e->code = ERR_FORMAT;
	else if (!rc)
		*e = (struct err){ 0 };
	return rc;
}

static enum err_code watch_index(struct state_store *s, uint64_t known, int64_t until,
    uint64_t *now, struct err *e)
{
	const struct timespec pause = { 0, POLL };
	struct state_index index;
	json_t *document;
	int64_t written;
	enum err_code rc;
	bool there;

	for (;;) {
		rc = read_index(of_store(s), &index, &document, &there, &written, e);
		*now = !rc && there ? (uint64_t)index.revision : 0;
		json_decref(document);
		if (rc || *now != known || clock_now() >= until)
			return rc;
		nanosleep(&pause, NULL);
	}
}

/* ---- writing ---- */

/* A write that has not ended: the pieces that were put in the present transaction. */
struct writing {
	struct etcd_txn txn;
	size_t pieces;
};

/* Puts a piece. When the transaction is full, it is done, and another one begins. */
static enum err_code put_piece(struct state_etcd *f, struct writing *w, const char *name, size_t at,
    const struct state_text *text, struct err *e)
{
	size_t n = text->size - at < PIECE ? text->size - at : PIECE;
	char *key = mem_printf("%s/%06zu", name, at / PIECE);
	enum err_code rc = ERR_OK;

	if (w->pieces == TXN_PIECES) {
		rc = commit_write(f, &w->txn, &f->index, false, e);
		begin_write(f, &w->txn, &f->index);
		w->pieces = 0;
	}
	etcd_put(f->etcd, &w->txn, key, text->text + at, n, 0);
	w->pieces++;
	free(key);
	return rc;
}

/* Puts the pieces of a part. *entry: what the index is to say of it; NULL: there is no such part. */
static enum err_code put_part(struct state_etcd *f, struct writing *w,
    const struct state_part_change *c, json_t **entry, struct buf *made, struct err *e)
{
	enum err_code rc = ERR_OK;
	char *name;

	json_decref(*entry);
	*entry = NULL;
	if (!c->text.text)
		return ERR_OK;
	name = mem_printf("state/%016" PRIx64 "-%" PRIu64 "/%s", f->store.cfg.incarnation,
	    f->revision, state_part_name[c->part]);
	buf_append(made, name, strlen(name) + 1);
	*entry = state_file_encode(&(const struct state_file){ .file = name,
	    .size = (int64_t)c->text.size,
	    .blake2b = c->text.digest,
	    .revision = (int64_t)f->revision });
	for (size_t at = 0; !rc && at < c->text.size; at += PIECE)
		rc = put_piece(f, w, name, at, &c->text, e);
	free(name);
	return rc;
}

static void put_index(struct state_etcd *f, struct writing *w,
    json_t *const entry[static STATE_PARTS])
{
	json_t *parts = json_object(), *index;
	char *text;

	for (size_t i = 0; i < STATE_PARTS; i++)
		if (entry[i])
			json_object_set(parts, state_part_name[i], entry[i]);
	index = state_index_encode(&(const struct state_index){ .revision = (int64_t)f->revision,
	    .parts = parts,
	    .lease_log = f->log });
	text = json_text(index);
	put_guard(f, &w->txn, &f->index, text);
	free(text);
	json_decref(index);
	json_decref(parts);
}

/* Removes all pieces of the part of this name. */
static void delete_part(struct state_etcd *f, struct etcd_txn *t, const char *name)
{
	/* The character after a slash is 0. */
	char *from = mem_printf("%s/", name), *to = mem_printf("%s0", name);

	etcd_delete_range(f->etcd, t, from, to);
	free(from);
	free(to);
}

/* The name of the part that the entry describes; NULL: none. Borrowed. */
static const char *name_of_entry(const json_t *entry)
{
	struct state_file f;

	return entry && !state_file_decode(entry, &f, NULL) ? f.file : NULL;
}

/* Has the transaction remove what the new entries replace. Returns how much of f->replaced that is, in
 * bytes. */
static size_t delete_replaced(struct state_etcd *f, struct writing *w,
    json_t *const entry[static STATE_PARTS])
{
	const struct buf *names = &f->replaced;
	size_t at = 0;

	for (size_t i = 0; i < STATE_PARTS; i++) {
		const char *name = name_of_entry(f->entry[i]);

		if (name && f->entry[i] != entry[i])
			delete_part(f, &w->txn, name);
	}
	for (int n = 0; at < names->len && n < REMOVED_AT_ONCE; n++) {
		delete_part(f, &w->txn, (char *)names->data + at);
		at += strlen((char *)names->data + at) + 1;
	}
	return at;
}

static enum err_code write_etcd(struct state_store *s, const struct state_part_change *change,
    size_t n, struct err *e)
{
	struct state_etcd *f = of_store(s);
	json_t *entry[STATE_PARTS];
	struct buf made = BUF_INIT;
	struct writing w = { .pieces = 0 };
	enum err_code rc = ERR_OK;
	size_t removed;

	f->revision++;
	for (size_t i = 0; i < STATE_PARTS; i++)
		entry[i] = json_incref(f->entry[i]);
	begin_write(f, &w.txn, &f->index);
	for (size_t i = 0; !rc && i < n; i++)
		rc = put_part(f, &w, &change[i], &entry[change[i].part], &made, e);
	put_index(f, &w, entry);
	removed = delete_replaced(f, &w, entry);
	if (rc)
		etcd_txn_drop(&w.txn);
	else
		rc = commit_write(f, &w.txn, &f->index, true, e);
	if (rc)
		buf_append(&f->replaced, made.data, made.len);
	else
		buf_consume(&f->replaced, removed);
	for (size_t i = 0; i < STATE_PARTS; i++) {
		if (!rc) {
			json_decref(f->entry[i]);
			f->entry[i] = json_incref(entry[i]);
		}
		json_decref(entry[i]);
	}
	buf_release(&made);
	return rc;
}

/* ---- the log ---- */

static enum err_code read_etcd_log(struct state_store *s, struct buf *out, struct err *e)
{
	struct state_etcd *f = of_store(s);
	char *prefix;
	struct etcd_kvs kvs;
	enum err_code rc;

	if (!f->former_log)
		return ERR_OK;
	keep_if_due(f);
	prefix = mem_printf("%s/", f->former_log);
	rc = etcd_read(f->etcd, prefix, TXN_PIECES, READ_PATIENCE, &kvs, e);
	for (size_t i = 0; i < kvs.n; i++)
		buf_append(out, kvs.kv[i].value.data, kvs.kv[i].value.len);
	etcd_kvs_release(&kvs);
	free(prefix);
	return rc;
}

/* The index of the first write names it; until then there is nothing to do. */
static enum err_code begin_etcd_log(struct state_store *s, struct err *e)
{
	struct state_etcd *f = of_store(s);

	(void)e;
	if (!f->log)
		f->log = mem_printf("log/%016" PRIx64, s->cfg.incarnation);
	return ERR_OK;
}

static char *log_key(const struct state_etcd *f, uint64_t seq)
{
	return mem_printf("%s/%016" PRIx64, f->log, seq);
}

/* The keys of records that are dropped go with the transaction that puts the first of the others. */
static enum err_code append_etcd_log(struct state_store *s, const struct buf *records, bool drop,
    struct err *e)
{
	struct state_etcd *f = of_store(s);
	uint64_t seq = f->seq;
	bool is_marked;
	enum err_code rc = f->knows_logged ? ERR_OK : read_guard(f, &f->logged, &is_marked, e);

	f->knows_logged = !rc;
	f->drop |= drop;
	for (size_t at = 0; !rc && at < records->len; at += PIECE) {
		size_t n = records->len - at < PIECE ? records->len - at : PIECE;
		char *key = log_key(f, seq++), *mark;
		struct etcd_txn t;

		begin_write(f, &t, &f->logged);
		mark = mem_printf("%016" PRIx64 "-%" PRIu64, s->cfg.incarnation, ++f->appends);
		put_guard(f, &t, &f->logged, mark);
		free(mark);
		if (f->drop && f->kept < f->seq) {
			char *from = log_key(f, f->kept), *to = log_key(f, f->seq);

			etcd_delete_range(f->etcd, &t, from, to);
			free(from);
			free(to);
		}
		etcd_put(f->etcd, &t, key, records->data + at, n, 0);
		rc = commit_write(f, &t, &f->logged, true, e);
		if (!rc && f->drop) {
			f->kept = f->seq;
			f->drop = false;
		}
		free(key);
	}
	if (!rc)
		f->seq = seq;
	return rc;
}

/* ---- cleaning ---- */

static bool is_named(const struct state_etcd *f, const char *key)
{
	for (size_t i = 0; i < STATE_PARTS; i++) {
		const char *name = name_of_entry(f->entry[i]);

		if (name && strncmp(key, name, strlen(name)) == 0 && key[strlen(name)] == '/')
			return true;
	}
	return f->log && strncmp(key, f->log, strlen(f->log)) == 0 && key[strlen(f->log)] == '/';
}

/* The keys that begin with `prefix` and that the state does not name. */
static void delete_left(struct state_etcd *f, const char *prefix)
{
	struct etcd_kvs kvs;

	if (etcd_read(f->etcd, prefix, 0, WRITE_PATIENCE, &kvs, NULL))
		return;
	for (size_t i = 0; i < kvs.n;) {
		struct etcd_txn t;
		size_t ops = 0;

		begin_guarded(f, &t);
		for (; i < kvs.n && ops < 64; i++)
			if (!is_named(f, kvs.kv[i].key)) {
				etcd_delete(f->etcd, &t, kvs.kv[i].key);
				ops++;
			}
		if (commit_guarded(f, &t, NULL))
			break;
	}
	etcd_kvs_release(&kvs);
}

static void delete_keys_of_others(struct state_store *s)
{
	delete_left(of_store(s), "state/");
	delete_left(of_store(s), "log/");
}

const struct state_store_ops state_store_etcd = {
	.serves = has_etcd_url,
	.open = open_etcd,
	.close = close_etcd,
	.where = name_etcd,
	.check_free = check_owner_key,
	.become_owner = take_owner_key,
	.verify = verify_owner_key,
	.beat = keep_lease,
	.stand_by = stand_by_etcd,
	.list_standbys = list_etcd_standbys,
	.read = read_etcd,
	.watch = watch_index,
	.write = write_etcd,
	.read_log = read_etcd_log,
	.begin_log = begin_etcd_log,
	.append = append_etcd_log,
	.clean = delete_keys_of_others,
};
