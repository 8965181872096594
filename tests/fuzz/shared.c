/* SPDX-License-Identifier: ISC */
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/endian.h"
#include "socket/lent.h"
#include "socket/shm.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/peer.h"

/* A peer that shares memory with a server may write anything there: the server takes records or ends
 * the connection. An input is a script, behind one byte that is not used:
 *   u8 how, below; u16 length of the body; then the body, cut where the input ends */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);

enum how {
	HOW_TYPE = 31,     /* type of the record, whose payload is the body */
	HOW_PLACE = 32,    /* the body is the place of a payload in lent memory, and its length */
	HOW_HEADER = 64,   /* the header stands in the body, before the payload or the place */
	HOW_ANYWHERE = 128 /* the body goes anywhere: u32 place, then the bytes */
};

#define LENT 5000u

struct world {
	struct peer peer;
	struct shm *shm; /* the peer's end, and all of its memory */
	uint8_t *all;
	size_t nall;
	struct lent *lent; /* and all of its memory */
	uint8_t *loan;
	size_t nloan;
	bool spoiled; /* the peer has written where a record is not */
	/* the record that is to come out, unless it is spoiled */
	uint8_t head[RECORD_HEADER];
	const uint8_t *payload;
	bool due;
};

static enum err_code admit(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e)
{
	(void)ctx, (void)key, (void)info, (void)e;
	reply->max_record = RECORD_MAX;
	reply->shares = true;
	return ERR_OK;
}

static void live(void *ctx, const struct hs_server_info *server)
{
	(void)ctx, (void)server;
}

static enum conn_verdict record(void *ctx, const struct record *r, uint8_t *payload)
{
	uint8_t head[RECORD_HEADER];
	struct world *w = ctx;

	record_encode(r, head);
	check(r->len <= RECORD_MAX && r->type != REC_BYE && r->type != REC_SHARE);
	if (w->spoiled) {
		/* A sanitizer looks at these reads. */
		for (uint32_t i = 0; i < r->len; i++)
			head[0] ^= payload[i];
		return CONN_TAKEN;
	}
	check(w->due && memcmp(head, w->head, sizeof head) == 0);
	check(!r->len || memcmp(payload, w->payload, r->len) == 0);
	w->due = false;
	return CONN_TAKEN;
}

static const struct conn_handler handler = { .admit = admit, .live = live, .record = record };

/* ---- both ends ---- */

static void send_offer(struct world *w, const int fd[static 2])
{
	uint8_t head[RECORD_HEAD];
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct iovec v = { head, sizeof head };
	struct msghdr m = { .msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof control.room };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(c), fd, 2 * sizeof(int));
	record_encode(&(struct record){ .type = REC_SHARE }, head);
	check(session_seal_header(&w->peer.session, head, head + RECORD_HEADER));
	session_next_tx(&w->peer.session);
	check(sendmsg(w->peer.fd, &m, 0) == (ssize_t)sizeof head);
}

/* All memory that the descriptor stands for. */
static uint8_t *map_all(int fd, int access, size_t *n)
{
	struct stat st;
	uint8_t *all;

	check(fstat(fd, &st) == 0);
	*n = (size_t)st.st_size;
	all = mmap(NULL, *n, access, MAP_SHARED, fd, 0);
	check(all != MAP_FAILED);
	return all;
}

static void open_world(struct world *w)
{
	uint8_t answer[RECORD_HEAD];
	int fd[2];

	peer_begin(&w->peer, SUITE_POLY1305, &handler, w);
	conn_borrow(w->peer.server);
	peer_shake_hands(&w->peer, SUITE_POLY1305);
	check(shm_new(&w->shm, &fd[0], NULL) == ERR_OK && lent_new(LENT, &w->lent, NULL) == ERR_OK);
	fd[1] = lent_fd(w->lent);
	memset(lent_bytes(w->lent), 7, LENT);
	w->all = map_all(fd[0], PROT_READ | PROT_WRITE, &w->nall);
	w->loan = map_all(fd[1], PROT_READ, &w->nloan);
	send_offer(w, fd);
	close(fd[0]);
	check(peer_turn(&w->peer) == ERR_OK);
	peer_expect(&w->peer, answer, sizeof answer);
}

static void close_world(struct world *w)
{
	peer_end(&w->peer);
	munmap(w->all, w->nall);
	munmap(w->loan, w->nloan);
	shm_free(w->shm);
	lent_free(w->lent);
}

/* ---- entries ---- */

/* Is this what the server is to deliver? payload: what follows the header in the ring. */
static bool is_due(struct world *w, const uint8_t *head, const uint8_t *payload, size_t n)
{
	struct record r;
	uint64_t place;

	if (record_decode(head, &r, NULL) || r.flags & RECORD_TO_CLIENT || r.type == REC_BYE ||
	    r.type == REC_SHARE)
		return false;
	w->payload = payload;
	/* Entries are padded, so a record may end in bytes of an earlier one. */
	w->spoiled |= n < (r.flags & RECORD_LENT ? 8 : r.len);
	if (!(r.flags & RECORD_LENT))
		return r.len <= n;
	place = n >= 8 ? get_le64(payload) : UINT64_MAX;
	if (place > w->nloan || r.len > w->nloan - place)
		return false;
	w->payload = w->loan + place;
	r.flags &= (uint16_t)~RECORD_LENT;
	record_encode(&r, w->head);
	return true;
}

/* Puts a record into the ring. */
static void put_record(struct world *w, uint8_t how, const uint8_t *body, size_t n)
{
	uint8_t head[RECORD_HEADER] = { 0 }, *room;
	struct record r = { .type = how & HOW_TYPE, .len = (uint32_t)n };

	if (how & HOW_HEADER) {
		memcpy(head, body, n < sizeof head ? n : sizeof head);
		body += n < sizeof head ? n : sizeof head;
		n -= n < sizeof head ? n : sizeof head;
	} else {
		if (how & HOW_PLACE) {
			r.flags = RECORD_LENT;
			r.len = n >= 12 ? get_le32(body + 8) : 1;
			n = n < 8 ? n : 8;
		}
		record_encode(&r, head);
	}
	room = shm_reserve(w->shm, RECORD_HEADER + n);
	if (!room)
		return;
	memcpy(room, head, sizeof head);
	if (n)
		memcpy(room + RECORD_HEADER, body, n);
	shm_commit(w->shm, RECORD_HEADER + n);
	memcpy(w->head, head, sizeof head);
	w->due = is_due(w, head, body, n);
}

static void write_anywhere(struct world *w, const uint8_t *body, size_t n)
{
	size_t at;

	if (n < 4)
		return;
	at = get_le32(body) % w->nall;
	body += 4;
	n -= 4;
	memcpy(w->all + at, body, n < w->nall - at ? n : w->nall - at);
	w->spoiled = true;
}

static struct entry scripted(const uint8_t *p, size_t n)
{
	return (struct entry){ 3 + (n < 3 ? 0u : get_le16(p + 1)), 3, 1, 2 };
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
	return script_mutate(data, n, most, seed, scripted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static bool ready;
	struct world w = { 0 };
	enum err_code rc = ERR_OK;

	if (!ready)
		peer_keys();
	ready = true;
	open_world(&w);
	for (size_t at = 1; !rc && at + 3 <= n;) {
		const uint8_t *body = data + at + 3;
		size_t left = n - at - 3, len = get_le16(data + at + 1);

		len = len < left ? len : left;
		if (data[at] & HOW_ANYWHERE)
			write_anywhere(&w, body, len);
		else
			put_record(&w, data[at], body, len);
		rc = peer_turn(&w.peer);
		check(w.spoiled || (!rc && !w.due) || rc == ERR_PROTO || rc == ERR_CLOSED);
		check(w.spoiled || !w.due);
		at += 3 + len;
	}
	close_world(&w);
	return 0;
}
