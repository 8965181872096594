/* SPDX-License-Identifier: ISC */
#include "store/file_client.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/names.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/file_message.h"
#include "msg/manifest.h"
#include "wire/dial.h"

#define BUSY_PAUSE (300 * NSEC_PER_MSEC)
#define BUSY_TRIES 200

struct far {
	struct server *server;
	struct conn *conn;
	uint64_t id;    /* of the checkpoint that is uploaded; 0: a download */
	unsigned tries; /* that ended because the coordinator had no room */
	/* This runs on the agent's thread, which must send heartbeats. */
	bool agents;
	bool live, ended; /* the session is up; FILE_END has arrived */
	struct err why;   /* the coordinator's refusal, or an error of ours */
	/* A download goes to this file, or to `in` if that is not NULL. */
	int fd;
	struct ckpt_receive *in;
};

/* ---- the session ---- */

static void on_file_session_live(void *ctx, const struct hs_server_info *unused)
{
	(void)unused;
	((struct far *)ctx)->live = true;
}

static enum conn_verdict on_file_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct far *f = ctx;
	enum err_code rc = ERR_OK;

	if (r->type == REC_NACK)
		rc = payload_get_nack(payload, r->len, &f->why);
	else if (r->type == REC_FILE_END)
		f->ended = true;
	else if (r->type == REC_FILE_DATA)
		rc = f->in ? ckpt_receive_put(f->in, payload, r->len, &f->why)
		           : file_write_all(f->fd, payload, r->len, &f->why);
	return rc ? CONN_DROP : CONN_TAKEN;
}

static const struct conn_handler handler = { .live = on_file_session_live,
	.record = on_file_record };

static bool is_transfer_given_up(const struct far *f)
{
	if (f->agents)
		agent_beat_busy(f->server->agent);
	return atomic_load(&f->server->stopping) ||
	    (f->id && atomic_load(&store_of(f->server)->saves) != f->id);
}

static bool is_file_session_live(void *ctx)
{
	return ((struct far *)ctx)->live || is_transfer_given_up(ctx);
}

static bool has_queue_room(void *ctx)
{
	return conn_queued(((struct far *)ctx)->conn) < FILE_QUEUED || is_transfer_given_up(ctx);
}

static bool is_file_ended(void *ctx)
{
	return ((struct far *)ctx)->ended || is_transfer_given_up(ctx);
}

static enum err_code await_file_session(struct far *f, bool (*ready)(void *), struct err *e)
{
	enum err_code rc = conn_until(f->conn, ready, f, FILE_PATIENCE, e);

	if (f->why.code)
		return err_pass(e, &f->why);
	if (!rc && is_transfer_given_up(f))
		return err_set(e, ERR_STOPPED, "it was given up");
	return rc;
}

static void close_file_session(struct far *f)
{
	conn_free(f->conn);
	f->conn = NULL;
	f->live = false;
	f->why = (struct err){ 0 };
}

static enum err_code open_file_session_at(struct far *f, const char *address, struct err *e)
{
	const struct identity *id = f->server->cfg.id;
	const struct dial_target to = { .tcp = address,
		.key = id->server_key,
		.transport = transport_find("tcp"),
		.id = &id->conn,
		.info = { .incarnation = f->server->incarnation,
		    .rank = RANK_NONE,
		    .role = ROLE_SERVER } };
	enum err_code rc = dial(&to, &handler, f, &f->conn, e);

	if (rc)
		return rc;
	return await_file_session(f, is_file_session_live, e);
}

/* At the coordinator with which this store has its session. Before that, tries the addresses of the
 * join file in turn. */
static enum err_code open_file_session(struct far *f, struct err *e)
{
	enum err_code rc = err_set(e, ERR_UNREACH, "the address of the coordinator is unknown");
	char address[NET_TEXT];

	agent_address(f->server->agent, address);
	if (*address)
		return open_file_session_at(f, address, e);
	/* One that has too many sessions for files is the one to wait for. */
	for (size_t i = 0; rc && rc != ERR_LIMIT && rc != ERR_STOPPED &&
	     net_list_at(f->server->cfg.id->data, i, address);
	     i++) {
		close_file_session(f);
		rc = open_file_session_at(f, address, e);
	}
	if (!rc)
		*e = (struct err){ 0 };
	return rc;
}

static enum err_code send_file_message(struct far *f, enum record_type type, json_t *msg,
    struct err *e)
{
	char *text = json_text(msg);
	struct record r = { .type = (uint8_t)type, .len = (uint32_t)strlen(text) };

	conn_send(f->conn, &r, text);
	free(text);
	json_decref(msg);
	return await_file_session(f, has_queue_room, e);
}

/* ---- uploads ---- */

static enum err_code put_file_begin(void *ctx, const char *name, uint64_t size, struct err *e)
{
	struct far *f = ctx;

	return send_file_message(f, REC_FILE_PUT,
	    file_put_encode(&(const struct file_put){ .id = (int64_t)f->id,
	        .name = name,
	        .size = (int64_t)size }),
	    e);
}

static enum err_code put_file_bytes(void *ctx, const void *p, size_t n, struct err *e)
{
	struct far *f = ctx;
	enum err_code rc = ERR_OK;

	for (size_t at = 0; !rc && at < n;) {
		struct record r = { .type = REC_FILE_DATA,
			.len = (uint32_t)(n - at < FILE_PIECE ? n - at : FILE_PIECE) };

		conn_send(f->conn, &r, (const uint8_t *)p + at);
		at += r.len;
		rc = await_file_session(f, has_queue_room, e);
	}
	return rc;
}

static enum err_code put_file_end(void *ctx, enum err_code rc, const char *blake2b, struct err *e)
{
	struct far *f = ctx;

	/* After an error the session is closed, and the coordinator drops the file. */
	if (rc)
		return rc;
	f->ended = false;
	rc = send_file_message(f, REC_FILE_END,
	    file_end_encode(&(const struct file_end){ .blake2b = blake2b }), e);
	return rc ? rc : await_file_session(f, is_file_ended, e);
}

/* Close the session, whether it succeeded or not. True: it was refused because the coordinator has
 * too many sessions for files; this has paused, and the caller tries again. */
static bool must_try_again(struct far *f, enum err_code rc)
{
	int64_t end = clock_now() + BUSY_PAUSE;
	bool again = rc == ERR_LIMIT && ++f->tries <= BUSY_TRIES;

	close_file_session(f);
	while (again && clock_now() < end && !is_transfer_given_up(f))
		clock_sleep(20);
	return again && !is_transfer_given_up(f);
}

enum err_code file_client_save(struct server *s, uint64_t id, const struct ckpt_part *parts,
    size_t n, json_t **description, struct err *e)
{
	struct far f = { .server = s, .id = id, .fd = -1 };
	struct ckpt_sink sink = { &f, put_file_begin, put_file_bytes, put_file_end };
	enum err_code rc;

	do {
		*description = NULL;
		rc = open_file_session(&f, e);
		if (!rc)
			rc = ckpt_send_server((unsigned)s->cfg.index, parts, n, &sink, description,
			    e);
	} while (must_try_again(&f, rc));
	return rc;
}

/* ---- downloads ---- */

static enum err_code download_to_sink(struct far *f, const char *name, struct err *e)
{
	enum err_code rc;

	f->ended = false;
	rc = send_file_message(f, REC_FILE_GET,
	    file_get_encode(&(const struct file_get){ .name = name }), e);
	return rc ? rc : await_file_session(f, is_file_ended, e);
}

static enum err_code download_manifest(struct far *f, const char *dir, struct err *e)
{
	char *path = path_join(dir, CKPT_MANIFEST);
	enum err_code rc = ERR_OK;

	f->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (f->fd < 0)
		rc = err_sys(e, ERR_IO, "cannot make \"%s\"", path);
	if (!rc)
		rc = download_to_sink(f, CKPT_MANIFEST, e);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	free(path);
	return rc;
}

static enum err_code download_file(struct far *f, const char *dir, const struct manifest_file *file,
    struct err *e)
{
	enum err_code rc = ckpt_receive_begin(dir, file->name,
	    file->size > 0 ? (uint64_t)file->size : 0, true, &f->in, e);

	if (rc)
		return rc;
	rc = download_to_sink(f, file->name, e);
	rc = ckpt_receive_end(f->in, rc, file->blake2b, e);
	f->in = NULL;
	return rc;
}

static enum err_code download_checkpoint(struct far *f, const char *dir, struct err *e)
{
	enum err_code rc = download_manifest(f, dir, e);
	struct manifest *manifest = rc ? NULL : ckpt_manifest_read(dir, e);

	if (!rc && !manifest)
		rc = e->code;
	for (uint64_t i = 0; !rc && i < manifest->nfiles; i++)
		rc = download_file(f, dir, &manifest->files[i], e);
	manifest_free(manifest);
	return rc;
}

enum err_code file_client_restore(struct server *s, struct ckpt_reader **out, struct err *e)
{
	struct far f = { .server = s, .fd = -1, .agents = true };
	char *dir;
	enum err_code rc = file_make_unique_dir(path_temporary("restore"), &dir, e);

	if (rc)
		return rc;
	do {
		rc = open_file_session(&f, e);
		if (!rc)
			rc = download_checkpoint(&f, dir, e);
	} while (must_try_again(&f, rc));
	if (!rc)
		rc = ckpt_open(dir, out, e);
	/* The files stay until the reader closes them. */
	file_remove_tree(dir, NULL);
	free(dir);
	return rc;
}

enum err_code file_client_init(struct server *s, char **path, struct err *e)
{
	struct far f = { .server = s, .agents = true };
	char *name = path_temporary("init"), open_file[40];
	enum err_code rc;

	f.fd = mkostemp(name, O_CLOEXEC);
	if (f.fd < 0) {
		rc = err_sys(e, ERR_IO, "cannot make a file for job.init in %s", name);
		free(name);
		return rc;
	}
	unlink(name);
	free(name);
	do {
		rc = open_file_session(&f, e);
		if (!rc)
			rc = download_to_sink(&f, "init", e);
	} while (must_try_again(&f, rc));
	if (rc) {
		close(f.fd);
		return rc;
	}
	/* The descriptor is never closed: tables that are created later begin from the file,
	 * too. */
	snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", f.fd);
	*path = mem_strdup(open_file);
	return ERR_OK;
}
