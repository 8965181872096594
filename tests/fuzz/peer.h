/* SPDX-License-Identifier: ISC */
#ifndef FUZZ_PEER_H
#define FUZZ_PEER_H

/* A server's end of a connection, and a peer that has the keys and writes whatever it likes. */
#include <sodium.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/conn.h"

struct peer {
	struct conn *server;
	int fd;                 /* the peer's end */
	struct session session; /* and its keys */
};

static struct conn_identity identity;
static struct key_pair peer_key;

static inline void check(bool good)
{
	if (!good)
		abort();
}

/* Makes the keys of both ends. Call it once. */
static inline void peer_keys(void)
{
	uint8_t secret[KEY_BYTES], psk[KEY_BYTES];
	struct key_pair k;

	check(key_init(NULL) == ERR_OK);
	memset(secret, 1, sizeof secret);
	key_pair_from_secret(&k, secret);
	memset(psk, 3, sizeof psk);
	handshake_identity_init(&identity.hs, &k, psk);
	memset(secret, 2, sizeof secret);
	key_pair_from_secret(&peer_key, secret);
}

static inline void peer_begin(struct peer *p, enum suite suite, const struct conn_handler *handler,
    void *ctx)
{
	int fd[2];

	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) == 0);
	p->fd = fd[1];
	p->server = conn_accept(fd[0], &identity, suite, 0, handler, ctx);
	check(conn_write(p->server, NULL) == ERR_OK);
}

static inline void peer_end(struct peer *p)
{
	session_wipe(&p->session);
	conn_free(p->server);
	close(p->fd);
}

/* The server does all that it can with what it has got. */
static inline enum err_code peer_turn(struct peer *p)
{
	struct err e = { 0 };
	enum err_code rc = conn_read(p->server, &e);

	while (!rc && conn_is_held(p->server))
		rc = conn_retry(p->server, &e);
	check(rc == e.code && (!rc || e.msg[0]));
	if (rc)
		return rc;
	return conn_write(p->server, NULL);
}

/* Writes in pieces of what a socket surely takes; not all when the server has ended the connection. */
static inline enum err_code peer_feed(struct peer *p, const uint8_t *data, size_t n)
{
	enum err_code rc = ERR_OK;

	while (n && !rc) {
		size_t k = n < 16384 ? n : 16384;

		check(write(p->fd, data, k) == (ssize_t)k);
		data += k;
		n -= k;
		if (n)
			rc = peer_turn(p);
	}
	return rc;
}

static inline void peer_expect(struct peer *p, uint8_t *data, size_t n)
{
	check(recv(p->fd, data, n, 0) == (ssize_t)n);
}

static inline void peer_shake_hands(struct peer *p, enum suite suite)
{
	uint8_t hello[HS_HELLO_BYTES], msg1[HS_MSG1_BYTES], msg2[HS_MSG2_BYTES], suites;
	static const struct hs_client_info info = { .incarnation = 4, .rank = 5, .role = 1 };
	struct hs_server_info server;
	struct hs_client hc;
	uint64_t hint;

	peer_expect(p, hello, sizeof hello);
	check(handshake_client_read_hello(&hc, hello, &suites, &hint, NULL) == ERR_OK);
	check(handshake_client_write1(&hc, &peer_key, identity.hs.key.pk, identity.hs.psk, suite,
	          &info, msg1, NULL) == ERR_OK);
	check(peer_feed(p, msg1, sizeof msg1) == ERR_OK && peer_turn(p) == ERR_OK &&
	    !conn_is_live(p->server));
	peer_expect(p, msg2, sizeof msg2);
	check(handshake_client_read2(&hc, msg2, &server, &p->session, NULL) == ERR_OK);
	handshake_client_wipe(&hc);
}

#endif
