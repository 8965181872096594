/* SPDX-License-Identifier: ISC */
/* A waiting client attends to everything else every 10 ms, and at once when attend_fd becomes readable. */
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "auth/keys.h"
#include "client/client_state.h"
#include "tap.h"

static struct {
	int fd;
	bool stays;               /* it stays readable */
	unsigned turns, attended; /* of the wait */
	unsigned first;           /* the turn after which `attend` was called first */
	unsigned most;            /* ... and the call that ends the wait */
} w;

static bool is_never_ready(struct client *c)
{
	(void)c;
	w.turns++;
	return false;
}

static bool attend(void *ctx, struct err *why)
{
	uint64_t n;

	(void)ctx;
	if (!w.attended++)
		w.first = w.turns;
	if (!w.stays && read(w.fd, &n, sizeof n) < 0)
		err_set(why, ERR_IO, "nothing was there");
	return w.attended == w.most && err_set(why, ERR_EXISTS, "the wait is over");
}

static void wait_for_call(bool stays, unsigned most)
{
	static const uint8_t psk[32] = { 9 };
	struct client_config cfg = { .deadline = 20 * NSEC_PER_SEC, .attend = attend };
	struct identity id = { 0 };
	struct key_pair key;
	struct client *c;
	struct log logger;
	struct err e;

	memset(&w, 0, sizeof w);
	w.stays = stays;
	w.most = most;
	w.fd = cfg.attend_fd = eventfd(1, EFD_NONBLOCK);
	log_init(&logger, "client", 2, LOG_LEVEL_ERROR);
	key_pair_generate(&key);
	handshake_identity_init(&id.conn.hs, &key, psk);
	cfg.id = &id;
	cfg.log = &logger;
	cfg.transport = transport_find("tcp");
	client_new(&cfg, &c, NULL);
	ok(client_wait_until(c, is_never_ready, 0, &e) == ERR_EXISTS && w.attended == most,
	    "a wait ends when attend says so");
	client_free(c);
	close(w.fd);
}

int main(void)
{
	wait_for_call(false, 1);
	ok(w.first == 1, "it attends in the first turn if attend_fd is readable then (turn %u)",
	    w.first);
	wait_for_call(true, 5);
	ok(w.turns < 20, "and does not turn all the time while that stays readable (%u turns)",
	    w.turns);
	return tap_done();
}
