/* SPDX-License-Identifier: ISC */
#ifndef CLIENT_CLIENT_OF_RELAY_H
#define CLIENT_CLIENT_OF_RELAY_H

#include "client/client.h"

/* The client that a relay has to its servers, or to another relay. It forwards aggregated pushes
 * and CLOCKs of the relay's workers, and pulls for them. It keeps no copy of a forwarded push:
 * after a new session or layout epoch, which the `up` hook and another client_session show, the
 * relay sends its aggregates again.
 *
 * One thread owns it and calls client_pump, which alone may wait; the hooks are called from
 * there. */
struct client_relay_hooks {
	void *ctx;
	unsigned self; /* the relay's number in the view */
	/* a link is UP again: send everything without an answer again */
	void (*up)(void *ctx, unsigned link);
	/* p, len: entries of a SUMMED record */
	void (*summed)(void *ctx, const uint8_t *p, size_t len);
	void (*clocked)(void *ctx, unsigned link, uint64_t seq);
	/* Values of a pull have arrived: one dense partition, or n rows of a sparse one, as of
	 * `version`. Borrowed. */
	void (*dense)(void *ctx, const struct table *t, uint32_t part, uint64_t step,
	    const float *w, uint64_t version);
	void (*rows)(void *ctx, const struct table *t, uint32_t part, uint64_t step,
	    const uint64_t *ids, uint32_t n, const float *w, uint64_t version);
};

/* Serve all links for at most ms, or until attend_fd is readable. */
void client_pump(struct client *c, int ms);

/* The session that aggregates of this partition are sent on: a new number for each session and
 * each layout epoch. 0: the link is not UP, or has enough queued. */
uint64_t client_session(struct client *c, const struct table *t, uint32_t part);
/* One aggregate of a partition's pushes, and its header. */
struct client_sum {
	const struct table *table;
	uint32_t part;
	uint64_t step, seq;
	const uint8_t *head, *body; /* sent one after the other, as one payload */
	size_t nhead, nbody;
};
/* Send it, cut to records; the link must be UP: client_session was not 0. */
void client_send_sum(struct client *c, const struct client_sum *m);

/* CLOCKS go to every link for which client_is_clock_link is true; the last of the client_links
 * links is the one to another relay. client_can_send_clocks: is it one of those, UP, and with room
 * in its queue?
 *
 * client_select_announcements: of the announcements in `runs`, append those that concern this link
 * to `out`. sends_nothing(table, part): will this relay send nothing for that partition? Then
 * another relay need not wait for it. */
unsigned client_links(const struct client *c);
/* True whether or not the link is UP. */
bool client_is_clock_link(const struct client *c, unsigned link);
/* Also marks the link as used, so that a link without a session is dialled by the next
 * client_pump. */
bool client_can_send_clocks(const struct client *c, unsigned link);
typedef bool client_sends_nothing(void *ctx, uint16_t table, uint32_t part);
/* Malformed runs and partitions that are not in the layout are left out. The link to a relay
 * represents every server. */
void client_select_announcements(const struct client *c, unsigned link, const uint8_t *runs,
    size_t len, client_sends_nothing *sends_nothing, void *ctx, struct buf *out);
/* Queues one CLOCKS record; body: its entries, at most RECORD_MAX bytes. The acknowledgement
 * repeats seq. Call it only when client_can_send_clocks says yes. */
void client_send_clocks(struct client *c, unsigned link, uint64_t seq, const struct buf *body);

#endif
