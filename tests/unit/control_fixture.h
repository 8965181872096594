/* SPDX-License-Identifier: ISC */
#ifndef CONTROL_FIXTURE_H
#define CONTROL_FIXTURE_H

/* The process of a coordinator whose messages the test handles, and the identities of a server and
 * a worker that may join it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "msg/answer.h"
#include "server/server.h"
#include "server/server_coordinator.h"
#include "session/identity.h"
#include "tap.h"

struct control {
	struct server *server;
	struct server_config cfg;
	struct identity id;
	struct key_pair member_key, worker_key;
	struct log log;
	char dir[40];
};

/* ---- the functions of a coordinator that has no state ---- */

static inline enum err_code control_find_earlier(struct server *s, struct err *e)
{
	(void)s, (void)e;
	return ERR_OK;
}

static inline enum err_code control_start(struct server *s, struct err *e)
{
	static int any;

	(void)e;
	s->coordinator = (struct coordinator *)&any;
	return ERR_OK;
}

static inline void control_end(struct coordinator *c)
{
	(void)c;
}

static inline void control_free(struct server *s)
{
	(void)s;
}

static inline void control_gone(struct coordinator *c, const struct coord_self *self)
{
	(void)c, (void)self;
}

/* ---- the process ---- */

static inline void control_open(struct control *c, const struct server_coordinator *role)
{
	static const uint8_t psk[32] = { 9 };
	char path[80], text[48];
	struct key_pair key;
	struct err e;
	FILE *f;

	*c = (struct control){
		.dir = "/tmp/pskit-control.XXXXXX",
		.cfg = { .coordinator = role, .index = -1, .listen = "127.0.0.1:0", .threads = 1 }
	};
	if (!mkdtemp(c->dir))
		abort();
	snprintf(path, sizeof path, "%s/keys", c->dir);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/keys/authorized_keys", c->dir);
	key_pair_generate(&key);
	key_pair_generate(&c->member_key);
	key_to_text(c->member_key.pk, text);
	f = fopen(path, "w");
	fprintf(f, "server x25519:%s server-0\n", text);
	key_pair_generate(&c->worker_key);
	key_to_text(c->worker_key.pk, text);
	fprintf(f, "worker x25519:%s worker-0\n", text);
	fclose(f);
	chmod(path, 0600);
	log_init(&c->log, "coordinator", 11, LOG_LEVEL_ERROR);
	handshake_identity_init(&c->id.conn.hs, &key, psk);
	c->id.run_dir = c->dir;
	c->cfg.id = &c->id;
	c->cfg.log = &c->log;
	if (server_start(&c->cfg, &c->server, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
}

static inline void control_close(struct control *c)
{
	char path[80];

	server_stop(c->server);
	snprintf(path, sizeof path, "%s/keys/authorized_keys", c->dir);
	unlink(path);
	snprintf(path, sizeof path, "%s/keys", c->dir);
	rmdir(path);
	rmdir(c->dir);
}

/* The address in it is borrowed from c. */
static inline void control_identity(const struct control *c, const struct key_pair *key,
    struct identity *out)
{
	*out = (struct identity){ .data = c->server->address };
	handshake_identity_init(&out->conn.hs, key, c->id.conn.hs.psk);
	memcpy(out->server_key, c->id.conn.hs.key.pk, sizeof out->server_key);
}

static inline void control_member(const struct control *c, struct identity *out)
{
	control_identity(c, &c->member_key, out);
}

static inline void control_worker(const struct control *c, struct identity *out)
{
	control_identity(c, &c->worker_key, out);
}

#endif
