/* SPDX-License-Identifier: ISC */
#include "coordinator/file_service.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/names.h"
#include "ckpt/write.h"
#include "coordinator/checkpoint_schedule.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/file_message.h"

/* The most sessions at once, in all and of one key. */
#define SESSIONS_MAX 128
#define OF_ONE_MAX   2
/* How often a session checks that it is still allowed. */
#define LOOK_EVERY (200 * NSEC_PER_MSEC)
/* How long a refused peer has to read the reason. */
#define LAST_WORDS (5 * NSEC_PER_SEC)

struct file_service_session {
	struct file_service_session *next;
	struct coordinator *coordinator;
	struct conn *conn;
	pthread_t thread;
	_Atomic bool stop, ended;
	/* the server at the other end */
	uint8_t key[KEY_BYTES];
	char keytext[48], name[KEYRING_NAME_MAX + 1];
	uint64_t incarnation;
	int64_t began, looked;
	uint64_t id; /* id of the checkpoint that the incoming file belongs to */

	bool refused;            /* a refusal was sent; nothing more is accepted */
	struct ckpt_receive *in; /* incoming file, or NULL */
	int out;                 /* descriptor of the outgoing file, or -1 */
	uint8_t piece[FILE_PIECE];
};

/* ---- answers ---- */

static enum conn_verdict send_refusal(struct file_service_session *s, const struct err *e)
{
	struct record r = { .type = REC_NACK };
	struct buf body = BUF_INIT;

	payload_put_nack(&body, e->code, e->msg);
	r.len = (uint32_t)body.len;
	conn_send(s->conn, &r, body.data);
	buf_release(&body);
	s->refused = true;
	return CONN_TAKEN;
}

static void answer_end(struct file_service_session *s)
{
	struct record r = { .type = REC_FILE_END, .len = 2 };

	conn_send(s->conn, &r, "{}");
}

/* ---- incoming files ---- */

static enum err_code begin_put(struct file_service_session *s, const json_t *msg, struct err *e)
{
	struct coordinator *coordinator = s->coordinator;
	struct file_put m;
	char *dir = NULL;
	enum err_code rc = file_put_decode(msg, &m, e);
	unsigned server;
	bool state;

	if (rc)
		return rc;
	if (s->in || s->out >= 0 || !ckpt_file_parse(m.name, &server, &state))
		return err_set(e, ERR_PROTO,
		    "a second file before the end of the first one, or not a file of a checkpoint");
	coordinator_lock(coordinator);
	if (!coord_is_server(coordinator->coord, server, s->keytext, s->incarnation))
		err_set(e, ERR_FORBIDDEN, "%s is not server-%u", s->name, server);
	else if (!(dir = checkpoint_schedule_receive_dir(coordinator->checkpoints, (uint64_t)m.id)))
		err_set(e, ERR_NOTREADY, "this checkpoint has been given up");
	coordinator_unlock(coordinator);
	if (!dir)
		return e->code;
	s->id = (uint64_t)m.id;
	rc = ckpt_receive_begin(dir, m.name, (uint64_t)m.size, true, &s->in, e);
	free(dir);
	return rc;
}

static enum err_code end_put(struct file_service_session *s, const json_t *msg, struct err *e)
{
	struct ckpt_receive *in = s->in;
	struct file_end m;
	enum err_code rc = file_end_decode(msg, &m, e);

	if (rc)
		return rc;
	if (!in)
		return err_set(e, ERR_PROTO, "the end of a file without its beginning");
	s->in = NULL;
	rc = ckpt_receive_end(in, ERR_OK, m.blake2b, e);
	if (!rc)
		answer_end(s);
	return rc;
}

/* ---- outgoing files ---- */

static enum err_code begin_get(struct file_service_session *s, const json_t *msg, struct err *e)
{
	struct coordinator *coordinator = s->coordinator;
	struct file_get m;
	bool init;
	const char *begins;
	char *path = NULL;
	enum err_code rc = file_get_decode(msg, &m, e);

	if (rc)
		return rc;
	init = strcmp(m.name, "init") == 0;
	if (s->in || s->out >= 0 ||
	    (!init && strcmp(m.name, CKPT_MANIFEST) != 0 && !ckpt_may_have(m.name)))
		return err_set(e, ERR_PROTO, "not a file that the coordinator sends: \"%.60s\"",
		    m.name);
	coordinator_lock(coordinator);
	begins = coord_present_conf(coordinator->coord)->job.init;
	begins = begins ? begins : "";
	if (!coord_is_server(coordinator->coord, COORD_ANY_SERVER, s->keytext, s->incarnation))
		err_set(e, ERR_FORBIDDEN, "%s is not a server of this cluster", s->name);
	else if (init && strchr(begins, '/'))
		path = mem_strdup(begins);
	else if (!init && coordinator->resumed.path)
		path = path_join(coordinator->resumed.path, m.name);
	else
		err_set(e, ERR_NOTFOUND, "this job does not begin with a file");
	coordinator_unlock(coordinator);
	if (!path)
		return e->code;
	s->out = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (init ? 0 : O_NOFOLLOW));
	if (s->out < 0)
		err_sys(e, init ? ERR_IO : ERR_FORMAT, "cannot open \"%s\"", path);
	free(path);
	return s->out < 0 ? e->code : ERR_OK;
}

static void send_file_piece(struct file_service_session *s)
{
	struct record r = { .type = REC_FILE_DATA };
	struct err e;
	ssize_t n;

	do
		n = read(s->out, s->piece, FILE_PIECE);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		r.len = (uint32_t)n;
		conn_send(s->conn, &r, s->piece);
		return;
	}
	if (n < 0) {
		/* To the server, which began with this file, the checkpoint is damaged. */
		err_sys(&e, ERR_FORMAT, "cannot read the file");
		send_refusal(s, &e);
	} else {
		answer_end(s);
	}
	close(s->out);
	s->out = -1;
}

/* ---- the session ---- */

static enum conn_verdict handle_file_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct file_service_session *s = ctx;
	struct err e = { 0 };
	json_t *msg = NULL;
	enum err_code rc;

	if (s->refused)
		return CONN_TAKEN;
	if (r->type == REC_FILE_DATA)
		rc = s->in ? ckpt_receive_put(s->in, payload, r->len, &e)
		           : err_set(&e, ERR_PROTO, "data outside of a file");
	else if (r->type != REC_FILE_PUT && r->type != REC_FILE_END && r->type != REC_FILE_GET)
		rc = err_set(&e, ERR_PROTO, "%s is not a record of a session for files",
		    record_type_name(r->type));
	else
		rc = (msg = json_parse((const char *)payload, r->len, 512, &e)) ? ERR_OK : e.code;
	if (msg)
		rc = r->type == REC_FILE_PUT  ? begin_put(s, msg, &e)
		    : r->type == REC_FILE_GET ? begin_get(s, msg, &e)
		                              : end_put(s, msg, &e);
	json_decref(msg);
	return rc ? send_refusal(s, &e) : CONN_TAKEN;
}

static const struct conn_handler handler = { .record = handle_file_record };

/* Refuse the session when its checkpoint was given up, when its server was declared lost, or
 * when its key was revoked. */
static void check_still_allowed(struct file_service_session *s, int64_t now)
{
	struct coordinator *coordinator = s->coordinator;
	struct err e = { 0 };
	char *dir;

	s->looked = now;
	coordinator_lock(coordinator);
	dir = s->in ? checkpoint_schedule_receive_dir(coordinator->checkpoints, s->id) : NULL;
	if (s->in && !dir)
		err_set(&e, ERR_NOTREADY, "this checkpoint has been given up");
	else if (!coord_is_server(coordinator->coord, COORD_ANY_SERVER, s->keytext,
	             s->incarnation) ||
	    !session_admit_knows_key(coordinator->server, s->key, ROLE_SERVER, NULL) ||
	    now - s->began > SESSION_LIFETIME)
		err_set(&e, ERR_CLOSED,
		    "%s is no longer a server of this cluster, or its session is too old", s->name);
	coordinator_unlock(coordinator);
	free(dir);
	if (e.code)
		send_refusal(s, &e);
}

static bool step_file_session(void *ctx)
{
	struct file_service_session *s = ctx;
	int64_t now = clock_now();

	while (s->out >= 0 && conn_queued(s->conn) < FILE_QUEUED)
		send_file_piece(s);
	if (!s->refused && now - s->looked > LOOK_EVERY)
		check_still_allowed(s, now);
	return atomic_load(&s->stop) || s->refused;
}

/* After a refusal the peer hangs up once it has read the reason. Read and drop the bytes that it
 * still sends. */
static bool must_stop_file_session(void *ctx)
{
	return atomic_load(&((struct file_service_session *)ctx)->stop);
}

static void *run_file_session(void *ctx)
{
	struct file_service_session *s = ctx;
	struct err e = { 0 };
	enum err_code rc = conn_retry(s->conn, &e);

	if (!rc)
		rc = conn_until(s->conn, step_file_session, s, FILE_PATIENCE, &e);
	if (!rc && s->refused)
		conn_until(s->conn, must_stop_file_session, s, LAST_WORDS, &e);
	if (s->in)
		ckpt_receive_end(s->in, ERR_CLOSED, NULL, &e);
	if (s->out >= 0)
		close(s->out);
	conn_free(s->conn);
	s->conn = NULL;
	atomic_store(&s->ended, true);
	return NULL;
}

/* With the coordinator's lock held: unlink the sessions that have ended, or all of them. Join them
 * after the lock is released (join_sessions). */
static struct file_service_session *unlink_sessions(struct coordinator *coordinator, bool all)
{
	struct file_service_session **p = &coordinator->files, *out = NULL, *s;

	mutex_assert_held(&coordinator->lock);
	while ((s = *p)) {
		if (!all && !atomic_load(&s->ended)) {
			p = &s->next;
			continue;
		}
		*p = s->next;
		s->next = out;
		out = s;
	}
	return out;
}

static void join_sessions(struct file_service_session *s)
{
	while (s) {
		struct file_service_session *next = s->next;

		atomic_store(&s->stop, true);
		pthread_join(s->thread, NULL);
		free(s);
		s = next;
	}
}

void file_service_take(struct coordinator *coordinator, struct server_session *p)
{
	struct file_service_session *s = mem_alloc(sizeof *s), *over;
	struct err busy = { .code = ERR_LIMIT,
		.msg = "too many file transfers at once; try again" };
	struct conn *conn;
	unsigned n = 0, own = 0;

	s->coordinator = coordinator;
	s->out = -1;
	s->began = s->looked = clock_now();
	s->incarnation = p->who.incarnation;
	memcpy(s->key, p->who.key, sizeof s->key);
	memcpy(s->keytext, p->who.keytext, sizeof s->keytext);
	memcpy(s->name, p->who.name, sizeof s->name);
	conn = s->conn = session_release_conn(p);
	conn_hand_over(conn, &handler, s);
	coordinator_lock(coordinator);
	over = unlink_sessions(coordinator, false);
	for (const struct file_service_session *f = coordinator->files; f; f = f->next) {
		n++;
		own += memcmp(f->key, s->key, sizeof s->key) == 0;
	}
	if (coordinator->files_closed || n >= SESSIONS_MAX || own >= OF_ONE_MAX ||
	    pthread_create(&s->thread, NULL, run_file_session, s)) {
		send_refusal(s, &busy);
		conn_write(conn, NULL);
		conn_free(conn);
		free(s);
	} else {
		s->next = coordinator->files;
		coordinator->files = s;
	}
	coordinator_commit_unlock(coordinator);
	join_sessions(over);
}

void file_service_stop(struct coordinator *coordinator)
{
	struct file_service_session *all;

	coordinator_lock(coordinator);
	coordinator->files_closed = true;
	all = unlink_sessions(coordinator, true);
	coordinator_unlock(coordinator);
	join_sessions(all);
}
