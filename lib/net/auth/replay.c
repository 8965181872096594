/* SPDX-License-Identifier: ISC */
#include "auth/replay.h"

#include <assert.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "core/endian.h"
#include "core/mem.h"

#define ID_BYTES 16
#define NONE     UINT32_MAX
#define SHARES   16384u /* a power of two */

/* Used entries are in the chains of the buckets, unused ones in the free chain. */
struct entry {
	uint8_t id[ID_BYTES]; /* BLAKE2b of the nonce under the peer's key */
	int64_t ts;
	uint32_t next;
	uint32_t share;
};

struct replay {
	uint8_t boot[REPLAY_BOOT_BYTES];
	int64_t forgotten; /* all nonces up to this time may be forgotten */
	int64_t purged_at;
	struct entry *entry;
	uint32_t *bucket;
	uint32_t free, mask;
	size_t capacity, used;
	/* The number of nonces held by the keys of each share. A secret hash assigns keys to
	 * shares, so nobody can choose a key that shares with another one. */
	uint32_t held[SHARES];
	uint8_t share_key[crypto_shorthash_KEYBYTES];
};

static uint32_t share_of(const struct replay *r, const uint8_t pk[static 32])
{
	uint8_t hash[crypto_shorthash_BYTES];

	crypto_shorthash(hash, pk, 32, r->share_key);
	return get_le32(hash) & (SHARES - 1);
}

/* A fresh boot id, for which no request has been made yet. */
static void start_over(struct replay *r)
{
	randombytes_buf(r->boot, sizeof(r->boot));
	r->forgotten = INT64_MIN;
	r->purged_at = INT64_MIN;
	for (size_t i = 0; i <= r->mask; i++)
		r->bucket[i] = NONE;
	for (size_t i = 0; i < r->capacity; i++)
		r->entry[i].next = i + 1 < r->capacity ? (uint32_t)(i + 1) : NONE;
	r->free = 0;
	r->used = 0;
	memset(r->held, 0, sizeof(r->held));
}

struct replay *replay_new(size_t capacity)
{
	struct replay *r = mem_alloc(sizeof(*r));
	size_t buckets = 1;

	assert(capacity >= 1 && capacity <= (size_t)1 << 24);
	while (buckets < capacity)
		buckets *= 2;
	r->capacity = capacity;
	r->mask = (uint32_t)(buckets - 1);
	crypto_shorthash_keygen(r->share_key);
	r->entry = mem_array(capacity, sizeof(*r->entry));
	r->bucket = mem_array(buckets, sizeof(*r->bucket));
	start_over(r);
	return r;
}

void replay_free(struct replay *r)
{
	if (r == NULL)
		return;
	free(r->entry);
	free(r->bucket);
	free(r);
}

const uint8_t *replay_boot(const struct replay *r)
{
	return r->boot;
}

/* Forget nonces that are too old to be replayed. It visits all entries, so at most once a
 * second. */
static void purge_old_nonces(struct replay *r, int64_t now)
{
	if (now == r->purged_at)
		return;
	r->purged_at = now;
	for (size_t i = 0; i <= r->mask; i++) {
		uint32_t *link = &r->bucket[i];

		while (*link != NONE) {
			uint32_t at = *link;
			struct entry *x = &r->entry[at];

			if (x->ts >= now - REPLAY_WINDOW) {
				link = &x->next;
				continue;
			}
			if (x->ts > r->forgotten)
				r->forgotten = x->ts;
			*link = x->next;
			x->next = r->free;
			r->free = at;
			r->held[x->share]--;
			r->used--;
		}
	}
}

/* May a key of this share add a nonce? Only if its share holds fewer than are free. So a single
 * key can use half of the room, two a third each, and some room is always left. */
static bool share_has_room(const struct replay *r, uint32_t share)
{
	return r->held[share] < r->capacity - r->used;
}

static enum err_code check_time(int64_t ts, int64_t now, struct err *e)
{
	/* Both lie within 0 .. 2^53 or so; a wild ts was refused by the parser. */
	int64_t ahead = ts - now;

	if (ahead >= -REPLAY_WINDOW && ahead <= REPLAY_WINDOW)
		return ERR_OK;
	return err_because(e, ERR_AUTH, CAUSE_CLOCK,
	    "the clocks differ: the client's is %lld s %s the server's (at most %d s is "
	    "allowed); set both by NTP",
	    (long long)(ahead < 0 ? -ahead : ahead), ahead < 0 ? "behind" : "ahead of",
	    REPLAY_WINDOW);
}

enum err_code replay_check(struct replay *r, const uint8_t pk[static 32],
    const uint8_t nonce[static REPLAY_NONCE_BYTES], const uint8_t boot[static REPLAY_BOOT_BYTES],
    int64_t ts, int64_t now, struct err *e)
{
	uint8_t id[ID_BYTES];
	uint32_t *bucket, at, share;
	enum err_code rc = check_time(ts, now, e);

	if (rc != ERR_OK)
		return rc;
	if (ts <= r->forgotten)
		start_over(r);
	if (sodium_memcmp(boot, r->boot, REPLAY_BOOT_BYTES) != 0)
		return err_set(e, ERR_STALE,
		    "the request names an earlier start of the server; repeat it with the "
		    "current boot id");
	crypto_generichash(id, sizeof(id), nonce, REPLAY_NONCE_BYTES, pk, 32);
	bucket = &r->bucket[get_le32(id) & r->mask];
	for (at = *bucket; at != NONE; at = r->entry[at].next)
		if (memcmp(r->entry[at].id, id, ID_BYTES) == 0)
			return err_set(e, ERR_AUTH,
			    "the request is a repetition: its nonce was already used");
	share = share_of(r, pk);
	if (!share_has_room(r, share))
		purge_old_nonces(r, now);
	if (!share_has_room(r, share))
		return err_set(e, ERR_LIMIT,
		    "this key has made %u signed requests within %d s; slow down", r->held[share],
		    2 * REPLAY_WINDOW);
	at = r->free;
	r->free = r->entry[at].next;
	memcpy(r->entry[at].id, id, ID_BYTES);
	r->entry[at].ts = ts;
	r->entry[at].share = share;
	r->held[share]++;
	r->used++;
	/* purge_old_nonces() may have changed the head of the chain, not the bucket's place. */
	r->entry[at].next = *bucket;
	*bucket = at;
	return ERR_OK;
}
