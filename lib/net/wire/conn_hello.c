/* SPDX-License-Identifier: ISC */
#include <sodium.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "wire/conn_state.h"

#define HANDSHAKE (3 * NSEC_PER_SEC)
/* A client with a wrong pre-shared key makes us read the key's file at most this often. */
#define SECRET_PAUSE (50 * NSEC_PER_MSEC)

static struct conn *conn_new(int fd, const struct conn_identity *id,
    const struct conn_handler *handler, void *ctx)
{
	struct conn *c = mem_alloc(sizeof *c);

	c->fd = fd;
	c->local = net_is_unix(fd);
	c->began = clock_now();
	c->id = id;
	c->handler = handler;
	c->ctx = ctx;
	c->to_write.out_last = &c->to_write.out;
	net_peer_text(fd, c->peer);
	return c;
}

struct conn *conn_accept(int fd, const struct conn_identity *id, enum suite suite,
    uint64_t epoch_hint, const struct conn_handler *handler, void *ctx)
{
	struct conn *c = conn_new(fd, id, handler, ctx);
	uint8_t hello[HS_HELLO_BYTES];

	c->server = true;
	c->suite = suite;
	c->state = CONN_WAIT_MSG1;
	c->hs_server = mem_alloc(sizeof *c->hs_server);
	handshake_server_hello(c->hs_server, (uint8_t)(1u << suite), epoch_hint, hello);
	conn_queue_raw(c, hello, sizeof hello);
	return c;
}

struct conn *conn_dial(int fd, const struct conn_identity *id, const uint8_t server_key[static 32],
    const struct hs_client_info *info, const struct conn_handler *handler, void *ctx)
{
	struct conn *c = conn_new(fd, id, handler, ctx);

	c->state = CONN_WAIT_HELLO;
	c->hs_client = mem_alloc(sizeof *c->hs_client);
	c->info = *info;
	memcpy(c->server_key, server_key, sizeof c->server_key);
	return c;
}

enum err_code conn_check(struct conn *c, int64_t now, struct err *e)
{
	if (c->state != CONN_LIVE && !c->server && now - c->began > HANDSHAKE)
		return err_set(e, ERR_UNREACH, "no answer for %d s",
		    (int)(HANDSHAKE / NSEC_PER_SEC));
	c->silent |= c->state == CONN_LIVE && net_is_silent(c->fd, now, &c->in_flight);
	if (c->silent)
		return err_set(e, ERR_UNREACH, "the network does not acknowledge the sent data");
	return ERR_OK;
}

/* Take a message of n bytes from the look-ahead; NULL: it is not complete yet. */
static const uint8_t *next_handshake_message(struct conn *c, size_t n)
{
	const uint8_t *p = c->look + c->in.look_at;

	if (c->in.look_len - c->in.look_at < n)
		return NULL;
	c->in.look_at += n;
	return p;
}

/* Verify msg1 by the pre-shared keys in force; if none fits, look for a newer one and try again. */
static enum err_code read_msg1(struct conn *c, const uint8_t *msg, struct hs_peer *peer,
    struct err *e)
{
	struct secrets *secrets = c->id->secrets;
	struct hs_identity ids[2];
	struct secret s[2];
	enum err_code rc;
	bool ours = false;

	if (!secrets) {
		rc = handshake_server_read1(c->hs_server, &c->id->hs, 1, msg, peer, e);
		return rc || memcmp(peer->info.cluster, c->id->cluster, HS_CLUSTER_BYTES) == 0
		    ? rc
		    : err_set(e, ERR_AUTH, "%s requests another cluster", c->peer);
	}
	do {
		size_t n = secrets_accepted(secrets, s);

		for (size_t i = 0; i < n; i++)
			ids[i] = s[i].id;
		rc = handshake_server_read1(c->hs_server, ids, n, msg, peer, e);
		ours = !rc &&
		    memcmp(peer->info.cluster, s[peer->identity].cluster, HS_CLUSTER_BYTES) == 0;
	} while (rc == ERR_AUTH && secrets_look(secrets, SECRET_PAUSE));
	sodium_memzero(ids, sizeof ids);
	sodium_memzero(s, sizeof s);
	return rc || ours ? rc : err_set(e, ERR_AUTH, "%s requests another cluster", c->peer);
}

static enum err_code on_msg1(struct conn *c, struct err *e)
{
	const uint8_t *msg = next_handshake_message(c, HS_MSG1_BYTES);
	struct hs_server_info reply = { .max_record = RECORD_MAX };
	uint8_t msg2[HS_MSG2_BYTES];
	struct hs_peer peer;
	enum err_code rc;

	if (!msg)
		return ERR_OK;
	rc = read_msg1(c, msg, &peer, e);
	if (rc)
		return rc;
	rc = c->handler->admit(c->ctx, peer.pk, &peer.info, &reply, e);
	if (rc) {
		/* The client has the pre-shared key, so it may know the reason. */
		enum hs_status status = rc == ERR_FENCED ? HS_FENCED
		    : rc == ERR_NOTREADY                 ? HS_NOTREADY
		    : rc == ERR_LIMIT                    ? HS_FULL
		    : rc == ERR_FORBIDDEN                ? HS_RANK
		                                         : HS_UNKNOWN;

		if (!handshake_server_write2(c->hs_server, status, NULL, msg2, NULL, NULL))
			conn_queue_raw(c, msg2, sizeof msg2);
		return rc;
	}
	c->mem.may_share = reply.shares && c->local;
	rc = handshake_server_write2(c->hs_server, HS_OK, &reply, msg2, &c->session, e);
	if (rc)
		return rc;
	conn_queue_raw(c, msg2, sizeof msg2);
	c->suite = peer.suite;
	c->state = CONN_WAIT_FIRST;
	handshake_server_wipe(c->hs_server);
	free(c->hs_server);
	c->hs_server = NULL;
	return ERR_OK;
}

static enum err_code write_msg1(struct conn *c, uint8_t msg1[static HS_MSG1_BYTES], struct err *e)
{
	const struct key_pair *self = &c->id->hs.key;
	struct secret s;
	enum err_code rc;

	if (!c->id->secrets)
		return handshake_client_write1(c->hs_client, self, c->server_key, c->id->hs.psk,
		    c->suite, &c->info, msg1, e);
	secrets_offered(c->id->secrets, c->server_key, &s);
	memcpy(c->info.cluster, s.cluster, sizeof c->info.cluster);
	rc = handshake_client_write1(c->hs_client, self, c->server_key, s.id.psk, c->suite,
	    &c->info, msg1, e);
	sodium_memzero(&s, sizeof s);
	return rc;
}

static enum err_code on_hello(struct conn *c, struct err *e)
{
	const uint8_t *msg = next_handshake_message(c, HS_HELLO_BYTES);
	uint8_t msg1[HS_MSG1_BYTES], suites;
	uint64_t hint;
	enum err_code rc;

	if (!msg)
		return ERR_OK;
	rc = handshake_client_read_hello(c->hs_client, msg, &suites, &hint, e);
	if (rc)
		return rc;
	/* The server offers one suite, that of its configuration. */
	suites &= suite_mask();
	for (unsigned s = 1; s < 8; s++)
		if (suites >> s & 1)
			c->suite = (enum suite)s;
	rc = write_msg1(c, msg1, e);
	if (rc)
		return rc;
	conn_queue_raw(c, msg1, sizeof msg1);
	c->state = CONN_WAIT_MSG2;
	return ERR_OK;
}

static enum err_code on_msg2(struct conn *c, struct err *e)
{
	const uint8_t *msg = next_handshake_message(c, HS_MSG2_BYTES);
	struct record first = { .type = REC_BATCH };
	struct hs_server_info info;
	enum err_code rc;

	if (!msg)
		return ERR_OK;
	rc = handshake_client_read2(c->hs_client, msg, &info, &c->session, e);
	if (rc)
		return rc;
	c->state = CONN_LIVE;
	handshake_client_wipe(c->hs_client);
	free(c->hs_client);
	c->hs_client = NULL;
	/* An empty BATCH, because the server waits for a record that proves that we have the
	 * keys. */
	conn_send(c, &first, NULL);
	c->handler->live(c->ctx, &info);
	return ERR_OK;
}

enum err_code conn_handshake(struct conn *c, struct err *e)
{
	switch (c->state) {
	case CONN_WAIT_MSG1:
		return on_msg1(c, e);
	case CONN_WAIT_HELLO:
		return on_hello(c, e);
	case CONN_WAIT_MSG2:
		return on_msg2(c, e);
	case CONN_WAIT_FIRST:
	case CONN_LIVE:
		break;
	}
	return ERR_OK;
}

void conn_forget_keys(struct conn *c)
{
	/* The server has closed without an answer. It may know only the previous pre-shared key,
	 * or a newer one that has not been read here. */
	if (c->state == CONN_WAIT_MSG2 && c->id->secrets)
		secrets_refused(c->id->secrets, c->server_key);
	if (c->hs_server)
		handshake_server_wipe(c->hs_server);
	if (c->hs_client)
		handshake_client_wipe(c->hs_client);
	free(c->hs_server);
	free(c->hs_client);
	session_wipe(&c->session);
}
