/* SPDX-License-Identifier: ISC */
/* Pushes and copies that come in pieces: how much room they get. */
#include <stdlib.h>

#include "server/server_state.h"
#include "tap.h"

#define PIECE (1u << 20)
#define COPY  (UINT64_C(6) << 30)

static uint8_t bytes[PIECE];

static enum conn_verdict piece(struct server_session *p, enum record_type type, uint64_t offset,
    uint64_t total, const uint8_t **body)
{
	struct record r = { .type = (uint8_t)type, .offset = offset, .total = total, .len = PIECE };

	return session_collect_pieces(p, &r, bytes, body);
}

/* A copy is larger than 32 bits can count, and only its first pieces have come. */
static void large_copies(void)
{
	struct server_session p = { .who.role = ROLE_SERVER };
	const uint8_t *body = NULL;
	bool good = true;

	for (uint64_t at = 0; at < 64 * PIECE; at += PIECE)
		good &= piece(&p, REC_REPL_STATE, at, COPY, &body) == CONN_TAKEN && !body;
	ok(good && p.data.rows_len == 64 * PIECE, "a copy of 6 GiB is taken piece by piece");
	ok(p.data.rows_cap <= 128 * PIECE,
	    "and has room for twice what has come, at most (%zu MiB)", p.data.rows_cap >> 20);
	session_drop_pieces(&p);
	ok(!p.data.rows && !p.data.rows_len && !p.data.rows_cap, "which is given back");
}

static void whole(void)
{
	struct server_session p = { .who.role = ROLE_SERVER };
	const uint8_t *body = NULL;

	memset(bytes, 1, sizeof bytes);
	piece(&p, REC_REPL_STATE, 0, 3 * PIECE, &body);
	memset(bytes, 2, sizeof bytes);
	piece(&p, REC_REPL_STATE, PIECE, 3 * PIECE, &body);
	ok(!body, "two of three pieces are no copy");
	memset(bytes, 3, sizeof bytes);
	ok(piece(&p, REC_REPL_STATE, 2 * PIECE, 3 * PIECE, &body) == CONN_TAKEN && body &&
	        body[0] == 1 && body[PIECE] == 2 && body[3 * PIECE - 1] == 3,
	    "the third makes it whole");
	session_drop_pieces(&p);
}

int main(void)
{
	large_copies();
	whole();
	return tap_done();
}
