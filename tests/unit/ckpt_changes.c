/* SPDX-License-Identifier: ISC */
/* Checkpoints that have but the changes to another: what is read is the whole. */
#include <stdlib.h>
#include <string.h>

#include "ckpt_fixture.h"

enum { ROWS = 300, RANKS = 2, SERVERS = 2 };

static char dir[] = "/tmp/pskit-changes.XXXXXX";

/* One table of 4 partitions; rows by number, and which of them have changed or are there. */
struct state {
	bool there[ROWS], changed[ROWS];
	float v[ROWS][1 + RANKS];
	uint64_t seen[ROWS];
};

static uint64_t id_of(unsigned i)
{
	return (uint64_t)i * 37 + 5;
}

/* What a server sees of it: partition k has every fourth. */
struct view {
	uint64_t ids[ROWS], seen[ROWS], live[ROWS], policy_words[2];
	float v[1 + RANKS][ROWS];
};

static struct ckpt_part part_of(const struct state *s, unsigned k, bool changes, bool gone,
    struct view *x)
{
	struct ckpt_part p = { .table = "t",
		.sparse = true,
		.part = k,
		.cols = 1,
		.nvectors = RANKS,
		.vector_cols = { 1, 1 },
		.version = 7,
		.step = 9,
		.ids = x->ids,
		.seen = x->seen,
		.w = x->v[0],
		.vector = { x->v[1], x->v[2] },
		.policy_words = x->policy_words,
		.npolicy_words = 2,
		.changes = changes };

	x->policy_words[0] = k;
	x->policy_words[1] = changes;
	for (unsigned i = k; i < ROWS; i += 4) {
		if (!s->there[i])
			continue;
		if (gone)
			x->live[p.nlive++] = id_of(i);
		if (changes && !s->changed[i])
			continue;
		x->ids[p.n] = id_of(i);
		x->seen[p.n] = s->seen[i];
		for (unsigned v = 0; v <= RANKS; v++)
			x->v[v][p.n] = s->v[i][v];
		p.n++;
	}
	p.live = gone ? x->live : NULL;
	return p;
}

/* Partition 3 is written whole in any case, and nothing has gone from partition 1. */
static enum err_code save(const struct state *s, uint64_t step, const char *base, char **path,
    struct err *e)
{
	json_t *head = json_pack("{s:i, s:i, s:[{s:s, s:b, s:i, s:i, s:i}]}", "generation", 1,
	           "epoch", 1, "tables", "name", "t", "sparse", 1, "rows", 0, "cols", 1, "parts",
	           4),
	       *d;
	static struct view view[4];
	struct manifest_head decoded;
	struct ckpt *c;
	enum err_code rc = ckpt_begin(dir, step, &c, e);

	*path = NULL;
	if (!rc && base)
		rc = ckpt_base(c, base, e);
	for (unsigned server = 0; !rc && server < SERVERS; server++) {
		struct ckpt_part part[2];

		for (unsigned i = 0; i < 2; i++) {
			unsigned k = server * 2 + i;

			part[i] = part_of(s, k, step > 10 && k != 3, step > 10 && k != 3 && k != 1,
			    &view[k]);
		}
		rc = ckpt_write_server(ckpt_tmp(c), server, part, 2, &d, e);
		if (!rc)
			rc = ckpt_add(c, d, e);
		json_decref(d);
	}
	if (!rc)
		rc = manifest_head_decode(head, &decoded, e);
	if (rc)
		ckpt_abort(c);
	else
		rc = ckpt_commit(c, &decoded, path, e);
	json_decref(head);
	return rc;
}

static bool reads_as(const char *path, const struct state *s)
{
	struct ckpt_reader *r;
	struct err e = { 0 };
	bool good = true;

	if (ckpt_verify(path, &e) || ckpt_open(path, &r, &e)) {
		printf("# %s\n", e.msg);
		return false;
	}
	for (unsigned k = 0; k < 4; k++) {
		const struct ckpt_table *t = ckpt_table_find(r, "t");
		struct ckpt_info info = ckpt_part_info(r, t, k);
		static struct view x;
		float *vector[RANKS] = { x.v[1], x.v[2] };
		size_t n = 0;

		good &= info.n <= ROWS && info.dated && info.npolicy_words == 2 &&
		    !ckpt_read_row_policy(r, t, k, x.seen, x.policy_words, &e) &&
		    x.policy_words[0] == k;
		/* In two pieces, as large tables are. */
		good &= !ckpt_read_part(r, t, k, 0, info.n / 3, x.ids, x.v[0], NULL, 0, &e);
		good &= !ckpt_read_part(r, t, k, info.n / 3, info.n - info.n / 3,
		    x.ids + info.n / 3, x.v[0] + info.n / 3, NULL, 0, &e);
		good &= !ckpt_read_part(r, t, k, 0, info.n, NULL, NULL, vector, RANKS, &e);
		for (unsigned i = k; i < ROWS; i += 4) {
			if (!s->there[i])
				continue;
			good &= n < info.n && x.ids[n] == id_of(i) && x.seen[n] == s->seen[i];
			for (unsigned v = 0; v <= RANKS; v++)
				good &= memcmp(&x.v[v][n], &s->v[i][v], sizeof(float)) == 0;
			n++;
		}
		good &= n == info.n;
	}
	ckpt_close(r);
	return good;
}

static void change(struct state *s, struct rng *rng, double share, bool goes)
{
	for (unsigned i = 0; i < ROWS; i++) {
		if (rng_unit(rng) < share) {
			s->there[i] = s->changed[i] = true;
			s->seen[i] = rng_below(rng, 1000);
			for (unsigned v = 0; v <= RANKS; v++)
				s->v[i][v] = (float)rng_normal(rng);
		} else if (goes && i % 4 != 1 && rng_unit(rng) < 0.2) {
			s->there[i] = false;
		}
	}
}

int main(void)
{
	struct state s = { 0 }, base;
	struct err e = { 0 };
	struct rng rng;
	char *whole, *path, *again;
	unsigned bad = 0;

	if (!mkdtemp(dir))
		return 1;
	rng_init(&rng, 4);
	change(&s, &rng, 0.5, false);
	ok(!save(&s, 10, NULL, &whole, &e) && reads_as(whole, &s), "a whole one");
	base = s;
	for (uint64_t step = 11; step < 40; step++) {
		s = base;
		memset(s.changed, 0, sizeof s.changed);
		change(&s, &rng, (double)(step % 5) / 8, true);
		if (save(&s, step, whole, &path, &e) || !reads_as(path, &s))
			bad++;
		free(path);
	}
	ok(bad == 0,
	    "changes of any part of it, and what they are to, make the whole: %u of 29 do not",
	    bad);
	ok(!save(&s, 40, whole, &path, &e) && !ckpt_remove(whole, &e) && reads_as(path, &s),
	    "they need nothing of another directory");
	ok(save(&s, 41, path, &again, &e) == ERR_FAILED && strstr(e.msg, "is a delta of another"),
	    "changes to changes are refused: %s", e.msg);
	ok(save(&s, 42, NULL, &again, &e) == ERR_FAILED &&
	        strstr(e.msg, "as changes, but the checkpoint has no base"),
	    "and changes to nothing: %s", e.msg);
	ok(save(&s, 43, whole, &again, &e) == ERR_FORMAT, "or to what has gone: %s", e.msg);
	free(whole);
	free(path);
	file_remove_tree(dir, NULL);
	return tap_done();
}
