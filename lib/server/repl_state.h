#ifndef SERVER_REPL_STATE_H
#define SERVER_REPL_STATE_H

/* Inside of repl: shared by repl.c and repl_send.c.  A link belongs to repl's
 * thread, but for what is said to be under the lock. */
#include "server/repl.h"

/* Records are made while less than this waits to be written. */
#define LINK_QUEUE_MAX (4u << 20)

struct todo {
	uint16_t table;
	uint32_t part;
};

struct link {
	struct repl *repl;
	unsigned index;
	char tcp[NET_TEXT], unix_path[NET_TEXT];
	uint8_t key[KEY_BYTES];
	bool live, wanted;              /* there, by the view; something is to be sent */
	bool joins, told;               /* we give it copies; the coordinator knows that it has them */
	uint64_t fed_all, fed_done;
	struct conn *conn;
	struct loop_fd h;
	bool up, refused;               /* refused: a copy was, and none was taken since */
	uint64_t session;
	int64_t next_try, retry, down_since, reported;
	atomic_bool asked;              /* the coordinator wants to know whether it is still down */
	struct batcher batcher;
	/* Under repl.lock. */
	struct todo *todo;
	size_t ntodo, cap;
};

struct repl {
	struct server *server;
	struct loop *loop;
	pthread_t thread;
	pthread_mutex_t lock;           /* todo lists; posted */
	struct link *link[COORD_SERVERS_MAX];   /* set once */
	_Atomic unsigned nlinks;
	bool posted;
	uint64_t next_session;
	uint32_t epoch;                 /* that what is sent is sent under */
};

/* repl_send.c: which partitions have something for the server at the other end,
 * and how it is put into records. */
bool link_next(struct link *l, struct todo *out);
void link_add(struct link *l, struct todo t);           /* under the lock */
bool link_put(void *link, const struct copy *c);        /* for shard_send */

#endif
