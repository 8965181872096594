#ifndef SERVER_UPLINK_STATE_H
#define SERVER_UPLINK_STATE_H

/* Inside of an uplink: shared by uplink.c and uplink_clocks.c. */
#include "client/relayed.h"
#include "server/uplink.h"

struct place {
	uint16_t table;
	uint32_t part;
};

/* A dense table. */
struct wanted {
	uint64_t end;                   /* the step that is wanted, plus 1 */
	uint32_t epoch;
};

/* Rows. */
struct want {
	struct want *next;
	uint16_t table;
	uint32_t epoch;
	uint64_t step;
	uint32_t n;
	uint64_t ids[];
};

/* A slot's last CLOCK, and DONE. */
struct slot_said {
	uint64_t token;                 /* of the last of them; 0: none */
	struct slot_clock said;         /* runs: owned */
};

/* To one server: by slot, up to which token it was told and has answered. */
struct heard {
	uint64_t *told, *acked;
	size_t n;
	struct batch_said { uint64_t seq; uint32_t slot; uint64_t token; } *open;
	size_t nopen, cap;
};

struct uplink {
	struct server *server;
	struct client *client;          /* the thread's alone, as are hooks, asked, room, heard */
	struct client_hooks hooks;
	pthread_t thread;
	int wake;
	atomic_bool stop;
	bool anew, settle, changed;
	uint64_t *asked;                /* by table: the step that was in this epoch, plus 1 */
	float **room;                   /* by dense table: what is on its way */
	uint64_t *elements;             /* that it has room for */
	size_t nasked;
	uint64_t seq;                   /* of the last CLOCKS */
	uint64_t alone;                 /* as of shard_alone */
	struct heard *heard;            /* by link */
	unsigned nheard;

	pthread_mutex_t lock;           /* all that follows */
	struct place *todo;             /* partitions with sums to be sent */
	size_t ntodo, todo_cap;
	struct wanted *wanted;          /* by table */
	size_t nwanted;
	struct want *wants;
	json_t *view;
	unsigned self;
	struct slot_said *slot;
	size_t nslots;
	uint64_t token, acked;          /* the last that was given; all up to this have been answered */
};

void uplink_ring(struct uplink *u);

/* uplink_clocks.c; the thread's */
/* The session, or the epoch, is another: all is to be told again. */
void clocks_anew(struct uplink *u, unsigned link);
void clocks_send(struct uplink *u);
void clocks_answer(struct uplink *u, unsigned link, uint64_t seq);
void clocks_free(struct uplink *u);

#endif
