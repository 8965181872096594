#ifndef CLIENT_RELAYED_H
#define CLIENT_RELAYED_H

#include "client/client.h"

/* A client as a relay has it: it hands on what others have pushed, and fetches what
 * they pull, to and from the servers or another relay.  Nothing here waits but
 * client_pump; one thread owns it, which the hooks are called on. */
struct client_hooks {
	void *ctx;
	unsigned self;                  /* the relay's number in the view */
	void (*up)(void *ctx, unsigned link);   /* a new session: what has no answer is to be sent again */
	void (*summed)(void *ctx, const uint8_t *p, size_t len);        /* entries of SUMMED */
	void (*clocked)(void *ctx, unsigned link, uint64_t seq);
	/* Values that were wanted for a step. */
	void (*dense)(void *ctx, const struct table *t, uint32_t part, uint64_t step, const float *w, uint64_t version);
	void (*rows)(void *ctx, const struct table *t, uint32_t part, uint64_t step, const uint64_t *ids, uint32_t n,
	    const float *w, uint64_t version);
};

/* Poll for at most ms, or until cancel_fd is readable, and do what there is to do. */
void client_pump(struct client *c, int ms);

/* The session that sums of this partition go out on, another number for each session and
 * each epoch; 0: none is up, or it has enough to write. */
uint64_t client_session(struct client *c, const struct table *t, uint32_t part);
struct client_sum {
	const struct table *table;
	uint32_t part;
	uint64_t step, seq;
	const uint8_t *head, *body;     /* which follow one another */
	size_t nhead, nbody;
};
void client_send_sum(struct client *c, const struct client_sum *m);

/* CLOCKS go to all links that hear; the last link is that to a relay.  client_clocks_to: is
 * this one up, and one of them?  client_claims: of these runs those that it is to be told of;
 * alone: is nothing of them to come from here?  Then a relay need not wait for it. */
unsigned client_links(const struct client *c);
bool client_hears(const struct client *c, unsigned link);
bool client_clocks_to(const struct client *c, unsigned link);
typedef bool client_alone(void *ctx, uint16_t table, uint32_t part);
void client_claims(const struct client *c, unsigned link, const uint8_t *runs, size_t len, client_alone *alone, void *ctx,
    struct buf *out);
void client_send_clocks(struct client *c, unsigned link, uint64_t seq, const struct buf *body);

#endif
