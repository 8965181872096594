/* SPDX-License-Identifier: ISC */
/* Messages of a server that the coordinator does not get, because the session breaks with them. The
 * coordinator is not a real one, and the server has no partitions. */
#include "control_fixture.h"

#include <signal.h>

#include "server/server_role.h"
#include "server/session_keys.h"

static struct {
	_Atomic int
	    lost; /* enum message_kind: the session ends at the first message of this kind */
	_Atomic unsigned sessions, heard; /* heard: messages of this kind */
	_Atomic int64_t made;             /* of the last report about keys */
} coordinator;

static json_t *handle(struct coordinator *c, struct coord_self *self, const struct message *m,
    struct durable_point *due, struct err *e)
{
	(void)c;
	*due = (struct durable_point){ 0 };
	if (m->kind == MESSAGE_server_join) {
		self->kind = COORD_SERVER;
		atomic_fetch_add(&coordinator.sessions, 1);
		return ANSWER(server_join, .index = 0);
	}
	if ((int)m->kind != atomic_load(&coordinator.lost))
		return NULL;
	if (m->kind == MESSAGE_keys_checked)
		atomic_store(&coordinator.made, m->keys_checked.made);
	if (atomic_fetch_add(&coordinator.heard, 1) == 0)
		err_set(e, ERR_CLOSED, "the session breaks");
	return NULL;
}

static bool may_announce(struct coordinator *c, const struct durable_point *due)
{
	(void)c, (void)due;
	return true;
}

static uint64_t rev_sent(struct coordinator *c)
{
	(void)c;
	return 0;
}

static const struct server_coordinator coordinator_role = { .find_earlier = control_find_earlier,
	.start = control_start,
	.stop = control_end,
	.free = control_free,
	.handle = handle,
	.may_announce = may_announce,
	.gone = control_gone,
	.rev_sent = rev_sent };

/* ---- the server ---- */

static json_t *join_message(const struct server *s, const char *host)
{
	return MESSAGE(server_join, .host = host, .tcp = s->advertised, .index = -1);
}

static enum err_code start(struct server *s, struct err *e)
{
	struct agent_config cfg = { .heartbeat = 50 * NSEC_PER_MSEC,
		.deadline = 60 * NSEC_PER_SEC };

	return server_join(s, &cfg, e);
}

static void stop(struct server *s)
{
	agent_stop(s->agent);
	s->agent = NULL;
}

static void release(struct server *s)
{
	(void)s;
}

static const struct server_role member_role = { .key_role = ROLE_SERVER,
	.join_message = join_message,
	.start = start,
	.stop = stop,
	.release = release };

/* Has the coordinator heard it in two sessions? */
static bool await_second(void)
{
	int64_t until = clock_now() + 10 * NSEC_PER_SEC;

	while (atomic_load(&coordinator.heard) < 2 && clock_now() < until)
		usleep(1000);
	return atomic_load(&coordinator.heard) == 2 && atomic_load(&coordinator.sessions) == 2;
}

/* A server joins, sends a message of this kind, and the session breaks. */
static bool is_sent_again(const struct control *control, enum message_kind kind,
    void (*send)(struct server *s))
{
	struct identity own;
	struct server_config cfg = { .role = &member_role,
		.id = &own,
		.index = -1,
		.listen = "127.0.0.1:0",
		.threads = 1 };
	struct server *member;
	struct log log;
	struct err e;
	bool again;

	log_init(&log, "server", 6, LOG_LEVEL_ERROR);
	cfg.log = &log;
	control_member(control, &own);
	atomic_store(&coordinator.lost, (int)kind);
	atomic_store(&coordinator.sessions, 0);
	atomic_store(&coordinator.heard, 0);
	if (server_start(&cfg, &member, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	send(member);
	again = await_second();
	server_stop(member);
	return again;
}

static void leave(struct server *s)
{
	server_leave(s, SIGTERM);
}

static void check_keys(struct server *s)
{
	session_keys_recheck(s, 7);
}

int main(void)
{
	struct control control;

	control_open(&control, &coordinator_role);
	ok(is_sent_again(&control, MESSAGE_leave, leave),
	    "a server asks again whether it may leave");
	ok(is_sent_again(&control, MESSAGE_keys_checked, check_keys) &&
	        atomic_load(&coordinator.made) == 7,
	    "and tells again that it has checked the keys of its sessions");
	control_close(&control);
	return tap_done();
}
