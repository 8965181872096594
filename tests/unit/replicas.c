/* SPDX-License-Identifier: ISC */
/* Partitions with copies, one interleaving at a time: those that break designs
 * which are almost right. */
#include <math.h>

#include "ckpt/write.h"
#include "core/endian.h"
#include "core/steps.h"
#include "replicas_fixture.h"
#include "wire/payload.h"

static const char *const modes[] = { "bsp", "ssp:1", "asp", "asp:scaled", "bsp rows", "bsp *" };

/* Does the mode close steps, so that all ranks are needed? */
static bool closes_steps(unsigned m)
{
	return strncmp(modes[m], "bsp", 3) == 0;
}

static bool step_of(struct net *x, unsigned head, uint64_t step, const char *chain,
    struct receipt *r)
{
	bool good = true;

	for (uint32_t rank = 0; rank < x->ranks; rank++)
		for (uint16_t t = 0; t < TABLES; t++)
			good &= push(x, head, t, rank, step, r) == SHARD_OK &&
			    r->status <= PUSH_MERGED;
	for (uint32_t rank = 0; rank < x->ranks; rank++)
		for (const char *c = chain; *c; c++)
			good &= clock_of(x, (unsigned)(*c - '0'), rank, step, 3) == SHARD_OK;
	return good;
}

/* ---- whole and alike ---- */

static void alike(void)
{
	static const char *const chains[] = { "01", "012" },
	                         *const rules[] = { "sgd", "adagrad", "adam", "momentum" };

	for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++)
		for (unsigned c = 0; c < 2; c++)
			for (unsigned k = 0; k < 4; k++) {
				struct net *x = net_open(modes[m], m == 0 && k % 2, rules[k],
				    chains[c], 2);
				struct receipt r;
				bool good = true;

				for (uint64_t step = 0; step < 5; step++) {
					good &= step_of(x, 0, step, chains[c], &r);
					net_settle(x);
					good &= is_safe(x, 0, &r);
				}
				ok(good && all_alike(x, 5) && !x->bad,
				    "%s, %s, chain of %zu: copies are alike, optimizer state too",
				    modes[m], rules[k], strlen(chains[c]));
				net_close(x);
			}
}

/* The values of the dense tables after five steps of two ranks, each push from version 0; the same on all
 * nodes? */
static bool values_after(const char *mode, float w[TABLES][8])
{
	struct net *x = net_open(mode, false, "momentum", "012", 2);
	struct receipt r;
	float now[8];
	uint64_t v;
	bool same = true;

	for (uint64_t step = 0; step < 5; step++) {
		same &= step_of(x, 0, step, "012", &r);
		net_settle(x);
	}
	for (unsigned i = 0; i < 3; i++) {
		net_layout(x, i == 0 ? "0" : i == 1 ? "1" : "2", -1);
		net_view(x, i);
		for (uint16_t t = 0; t < TABLES; t++) {
			memset(now, 0, sizeof now);
			same &= pull(x, i, t, 5, now, &v) == SHARD_OK;
			same &= !i || memcmp(now, w[t], sizeof now) == 0;
			memcpy(w[t], now, sizeof now);
		}
	}
	same &= !x->bad;
	net_close(x);
	return same;
}

/* Only the head knows past values, and the others apply what it has made of a gradient. */
static void compensated(void)
{
	float plain[TABLES][8], dc[TABLES][8], dca[TABLES][8];

	ok(values_after("asp", plain) && values_after("asp:dc:0.5", dc) &&
	        values_after("asp:dca", dca),
	    "copies are alike, also with gradients that the head compensates");
	ok(memcmp(plain, dc, sizeof dc) && memcmp(plain, dca, sizeof dca) &&
	        memcmp(dc, dca, sizeof dca),
	    "and these are other values than without");
}

static void receipts_wait(void)
{
	for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
		struct net *x = net_open(modes[m], false, "sgd", "012", 1);
		struct receipt r;
		float w[8];
		uint64_t v, old;

		pull(x, 2, W, SYNC_NEVER, w, &old);
		push(x, 0, W, 0, 0, &r);
		for (unsigned i = 0; i < 3; i++)
			clock_of(x, i, 0, 0, 1);
		ok(!is_safe(x, 0, &r), "%s: the head alone is no promise", modes[m]);
		net_send(x, 0, 1);
		net_deliver(x, 0, 1);
		ok(!net_answer(x, 1, 0) && !is_safe(x, 0, &r), "%s: nor two of three", modes[m]);
		ok(pull(x, 0, W, 0, w, &v) == SHARD_ELSEWHERE &&
		        pull(x, 1, W, 0, w, &v) == SHARD_ELSEWHERE,
		    "%s: neither answers pulls", modes[m]);
		ok(pull(x, 2, W, SYNC_NEVER, w, &v) == SHARD_OK && v == old,
		    "%s: the last shows what it has", modes[m]);
		ok(!closes_steps(m) || pull(x, 2, W, 1, w, &v) == SHARD_WAIT,
		    "and no step that it has not");
		net_send(x, 1, 2);
		net_deliver(x, 1, 2);
		ok(pull(x, 2, W, 1, w, &v) == SHARD_OK && v == old + 1,
		    "%s: the last has it, and shows it", modes[m]);
		ok(!is_safe(x, 0, &r), "%s: the head has not heard of that", modes[m]);
		net_answer(x, 2, 1);
		net_answer(x, 1, 0);
		ok(is_safe(x, 0, &r) && replicas_of(x->node[0].s, W, 0) == 3,
		    "%s: then it promises, three copies", modes[m]);
		ok(push(x, 1, W, 0, 1, &r) == SHARD_ELSEWHERE &&
		        push(x, 2, W, 0, 1, &r) == SHARD_ELSEWHERE,
		    "%s: pushes go to the head alone", modes[m]);
		net_close(x);
	}
}

/* ---- the head dies ---- */

/* A pull answered from a version that only the dead head had: the version would
 * go back. */
static void nothing_shown_that_can_be_lost(void)
{
	for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
		struct net *x = net_open(modes[m], false, "adagrad", "01", 1);
		struct receipt r, again;
		float before[8], after[8];
		uint64_t seen, v;

		step_of(x, 0, 0, "01", &r);
		net_settle(x);
		step_of(x, 0, 1, "01", &r); /* is lost with the head */
		ok(pull(x, 1, W, SYNC_NEVER, before, &seen) == SHARD_OK && seen == 1,
		    "%s: only what both have is shown", modes[m]);
		net_kill(x, 0);
		net_chain(x, "1", -1);
		ok(pull(x, 1, W, SYNC_NEVER, after, &v) == SHARD_OK && v >= seen &&
		        memcmp(before, after, 16) == 0,
		    "%s: and it is there when the head has died", modes[m]);
		ok(push(x, 1, W, 0, 1, &again) == SHARD_OK && again.status <= PUSH_MERGED,
		    "%s: what had no receipt is taken once more", modes[m]);
		ok(push(x, 1, W, 0, 0, &again) == SHARD_OK && again.status == PUSH_DUPLICATE,
		    "%s: what had one is known", modes[m]);
		net_close(x);
	}
}

/* The clocks are with the next copy before the head's sum is: the step is not
 * over there, neither while the head lives nor when it has died. */
static void a_claim_is_waited_for(void)
{
	for (unsigned dies = 0; dies < 2; dies++) {
		struct net *x = net_open("bsp", false, "sgd", "01", 2);
		struct receipt r;
		float w[8];
		uint64_t v;

		push(x, 0, W, 0, 0, &r);
		push(x, 0, W, 1, 0, &r);
		for (uint32_t rank = 0; rank < 2; rank++)
			for (unsigned i = 0; i < 2; i++)
				clock_of(x, i, rank, 0, 1);
		ok(pull(x, 1, W, 1, w, &v) == SHARD_WAIT,
		    "a copy that knows of pushes waits for their sum");
		ok(pull(x, 1, ROWS, 1, w, &v) == SHARD_OK && v == 0,
		    "and not for what nobody pushed");
		if (dies) {
			net_kill(x, 0);
			net_chain(x, "1", -1);
			ok(pull(x, 1, W, 1, w, &v) == SHARD_WAIT,
			    "nor is the step over when it has become the head");
			ok(push(x, 1, W, 1, 0, &r) == SHARD_OK && r.status == PUSH_MERGED &&
			        pull(x, 1, W, 1, w, &v) == SHARD_WAIT,
			    "one of two is not enough");
			ok(push(x, 1, W, 0, 0, &r) == SHARD_OK && r.status == PUSH_MERGED,
			    "both come again");
		} else {
			net_settle(x);
		}
		ok(pull(x, 1, W, 1, w, &v) == SHARD_OK && v == 1, "then the step is shown");
		net_close(x);
	}
}

static enum shard_answer shows(struct shard *s, uint16_t table, uint32_t rank, uint64_t step)
{
	return shard_own_pushes(s, table, 0, rank, inc_of(rank), step);
}

/* In ssp and asp the last copy shows a worker its own pushes of the steps before, and makes nobody wait for
 * another worker's. That also holds for a worker that had no examples, has sent DONE, and has some again. */
static void own_pushes_are_shown(void)
{
	static const char *const of[] = { "ssp:3", "asp", "ssp:3, done", "asp, done" };

	for (unsigned m = 0; m < 4; m++) {
		struct net *x = net_open(m % 2 ? "asp" : "ssp:3", false, "sgd", "01", 2);
		struct shard *tail = x->node[1].s;
		struct receipt r;
		unsigned wakes;

		for (unsigned i = 0; i < 2 && m >= 2; i++)
			shard_done(x->node[i].s, 0, inc_of(0));
		ok(shows(tail, W, 0, 0) == SHARD_OK, "%s: at first nothing is to come", of[m]);
		push(x, 0, W, 0, 0, &r);
		for (unsigned i = 0; i < 2; i++)
			clock_of(x, i, 0, 0, 1);
		ok(shows(tail, W, 0, 1) == SHARD_WAIT, "%s: its own push is on its way", of[m]);
		ok(shows(tail, ROWS, 0, 1) == SHARD_OK,
		    "%s: to the other table it has pushed nothing", of[m]);
		ok(shows(tail, W, 1, 1) == SHARD_OK, "%s: the other worker does not wait for it",
		    of[m]);
		wakes = x->node[1].wakes;
		net_settle(x);
		ok(shows(tail, W, 0, 1) == SHARD_OK && x->node[1].wakes > wakes,
		    "%s: it has come, and whoever waits is woken", of[m]);
		push(x, 0, W, 0, 1, &r);
		for (unsigned i = 0; i < 2; i++)
			clock_of(x, i, 0, 1, 1);
		net_kill(x, 0);
		net_chain(x, "1", -1);
		ok(shows(tail, W, 0, 2) == SHARD_WAIT,
		    "%s: a push that died with the head is still to come", of[m]);
		push(x, 1, W, 0, 1, &r);
		ok(shows(tail, W, 0, 2) == SHARD_OK, "%s: it was sent again", of[m]);
		net_close(x);
	}
}

/* A worker is declared lost when its last push has not reached the tail yet, and pulls on. */
static void a_lost_worker_is_shown_nothing(void)
{
	static const char *const of[] = { "ssp:3", "asp" };

	for (unsigned m = 0; m < 2; m++) {
		struct net *x = net_open(of[m], false, "sgd", "01", 2);
		struct shard *tail = x->node[1].s;
		struct receipt r;

		push(x, 0, W, 0, 0, &r);
		for (unsigned i = 0; i < 2; i++)
			clock_of(x, i, 0, 0, 1);
		shard_vote(tail, 0, 0, 1, false);
		ok(shows(tail, W, 0, 1) == SHARD_FENCED,
		    "%s: one that may be lost is not shown values without its own push", of[m]);
		ok(shows(tail, W, 1, 1) == SHARD_OK, "%s: the others are", of[m]);
		net_close(x);
	}
}

/* The mode becomes bsp. Its first step shows the pushes of ssp and asp before it, which the last copy gets later
 * than all CLOCKs. */
static void pushes_before_bsp_are_shown(void)
{
	static const char *const of[] = { "ssp:3", "asp" };

	for (unsigned m = 0; m < 2; m++) {
		struct net *x = net_open(of[m], false, "sgd", "01", 2);
		struct settings_epoch bsp = { .step = 1, .number = 1, .rule = optim_find("sgd") };
		struct receipt r;
		float w[8];
		uint64_t v;

		sync_parse("bsp", &bsp.mode, NULL);
		bsp.rule->defaults(&bsp.hyper);
		schedule_parse("constant", &bsp.schedule, NULL);
		for (unsigned i = 0; i < 2; i++) {
			shard_add_epoch(x->node[i].s, &bsp);
			shard_end_vote(x->node[i].s);
		}
		push(x, 0, W, 0, 0, &r);
		for (uint32_t rank = 0; rank < 2; rank++)
			for (unsigned i = 0; i < 2; i++)
				clock_of(x, i, rank, 0, rank == 0);
		ok(pull(x, 1, W, 1, w, &v) == SHARD_WAIT,
		    "%s, then bsp: a pull waits for the push of the step before", of[m]);
		ok(pull(x, 1, ROWS, 1, w, &v) == SHARD_OK && v == 0,
		    "%s, then bsp: and not where nobody pushed", of[m]);
		net_settle(x);
		ok(pull(x, 1, W, 1, w, &v) == SHARD_OK && v == 1, "%s, then bsp: it is there",
		    of[m]);
		net_close(x);
	}
}

/* The server that took the pushes of a rank is lost, and a process takes over the rank. Its first step lies
 * behind all pushes that a replica has, or the replica would take its pushes for duplicates. So it does at a
 * server that got the partition later. */
static void replicated_pushes_count_in_votes(void)
{
	static const char *const of[] = { "ssp:3", "asp" };

	for (unsigned m = 0; m < 2; m++) {
		struct net *x = net_open(of[m], false, "sgd", "01", 2);
		struct shard_vote v;
		struct receipt r;

		push(x, 0, W, 0, 5, &r);
		net_settle(x);
		net_kill(x, 0);
		v = shard_vote(x->node[1].s, 0, 900, 5, false);
		ok(!v.yes && v.first_free == 6, "%s: a replica knows the step of a push: %llu",
		    of[m], (unsigned long long)v.first_free);
		net_chain(x, "1", -1);
		net_start(x, 2);
		net_chain(x, "1", 2);
		while (shard_send_next_state(x->node[1].s, 2))
			;
		net_settle(x);
		v = shard_vote(x->node[2].s, 0, 900, 5, false);
		ok(!v.yes && v.first_free == 6, "%s: so does one that joined: %llu", of[m],
		    (unsigned long long)v.first_free);
		net_close(x);
	}
}

/* A worker of a deterministic job is away, and servers join, which have heard no CLOCK of its rank. The worker goes on
 * where it was, and not before: it has forgotten where in its data earlier steps began. */
static void closed_steps_count_in_votes(void)
{
	struct net *x = net_open("bsp", true, "sgd", "0", 2);
	struct receipt r;

	for (uint64_t step = 0; step < 3; step++)
		for (uint32_t rank = 0; rank < 2; rank++) {
			push(x, 0, W, rank, step, &r);
			push(x, 0, ROWS, rank, step, &r);
			clock_of(x, 0, rank, step, (1u << W | 1u << ROWS));
		}
	net_start(x, 1);
	net_start(x, 2);
	net_chain(x, "0", 1);
	while (shard_send_next_state(x->node[0].s, 1))
		;
	net_settle(x);
	ok(shard_vote(x->node[1].s, 0, 900, 0, true).clock == 3,
	    "a server that joins knows that a rank has completed the steps that are closed: %llu",
	    (unsigned long long)shard_vote(x->node[1].s, 0, 900, 0, true).clock);
	ok(shard_vote(x->node[2].s, 0, 900, 0, true).clock == STEPS_END,
	    "one without partitions needs no step of it: %llu",
	    (unsigned long long)shard_vote(x->node[2].s, 0, 900, 0, true).clock);
	net_close(x);
}

/* The head's successor has not closed the step, although its clocks say so: what
 * a rank stated at its CLOCK is kept until it has. */
static void means_survive(void)
{
	float want = 0, row[8];
	uint64_t v;

	for (unsigned dies = 0; dies < 2; dies++) {
		struct net *x = net_open("bsp", false, "sgd", "01", 2);
		unsigned head = dies;
		struct receipt r;

		push(x, 0, ROWS, 1, 0, &r);
		for (unsigned i = 0; i < 2; i++) {
			clock_of(x, i, 0, 0, 0); /* two examples, none of them here */
			clock_of(x, i, 1, 0, 2);
		}
		if (dies) {
			net_kill(x, 0);
			net_chain(x, "1", -1);
			/* It needs nothing of this table, and goes on. */
			clock_of(x, 1, 0, 1, 0);
			push(x, 1, ROWS, 1, 0, &r);
		}
		net_settle(x);
		ok(pull(x, 1, ROWS, 1, row, &v) == SHARD_OK && v == 1 && is_safe(x, head, &r),
		    "the step is made");
		if (dies)
			ok(row[0] == want, "and is the mean over all examples: %.6f, not %.6f",
			    (double)want, (double)row[0]);
		want = row[0];
		net_close(x);
	}
}

/* The same, and the rank has no further part when the sum comes: it said that it
 * is done, or is taken for dead. */
static void a_claim_of_one_that_is_gone(void)
{
	for (unsigned how = 0; how < 2; how++) {
		const char *what = how ? "lost" : "done";
		struct net *x = net_open("bsp", false, "sgd", "01", 2);
		struct receipt r;
		float w[8];
		uint64_t v;

		push(x, 0, W, 0, 0, &r);
		for (unsigned i = 0; i < 2; i++) {
			clock_of(x, i, 0, 0, 1);
			if (how)
				dismiss(x->node[i].s, 0, 3);
			else
				shard_done(x->node[i].s, 0, inc_of(0));
		}
		for (unsigned i = 2; i-- > 0;)
			clock_of(x, i, 1, 0, 0);
		ok(pull(x, 1, W, 1, w, &v) == SHARD_WAIT,
		    "a push of a worker that is %s is waited for by the copy", what);
		net_settle(x);
		ok(pull(x, 1, W, 1, w, &v) == SHARD_OK && v == version_of(x->node[0].s, W, 0) &&
		        v == 1,
		    "and its sum is not passed over (version %llu)", (unsigned long long)v);
		ok(is_safe(x, 0, &r), "before it is said to be everywhere");
		ok(all_alike(x, 1) || how == 0, "copies are alike");
		net_close(x);
	}
}

/* A worker that closed a step on one server and died before it told the next: the
 * copy cannot tell from its clocks that the step is over. */
static void torn_steps(void)
{
	for (unsigned who = 0; who < 2; who++) {
		struct net *x = net_open("bsp", false, "adagrad", "01", 2);
		struct receipt r;
		float w[8];
		uint64_t v;

		push(x, 0, W, 0, 0, &r);
		push(x, 0, W, 1, 0, &r);
		for (unsigned i = 0; i < 2; i++)
			clock_of(x, i, 0, 0, 1);
		clock_of(x, who, 1, 0, 1); /* to one of the two */
		for (unsigned i = 0; i < 2; i++)
			dismiss(x->node[i].s, 1, 2);
		net_settle(x);
		ok(pull(x, 1, W, 1, w, &v) == SHARD_OK && v == 1 &&
		        pull(x, 1, ROWS, 1, w, &v) == SHARD_OK && v == 0,
		    "a half-told step ends alike on both (told: %s)",
		    who ? "the copy" : "the head");
		/* Of the next step it gave nothing; nobody knows that yet. */
		push(x, 0, ROWS, 0, 1, &r);
		for (unsigned i = 2; i-- > 0;)
			clock_of(x, i, 0, 1, 2);
		net_settle(x);
		ok(is_safe(x, 0, &r) && pull(x, 1, W, 2, w, &v) == SHARD_OK && v == 1,
		    "and so does the one after it");
		net_close(x);
	}
	{
		/* It pushed to one partition, and not to the other that it claims. */
		struct net *x = net_open("bsp", false, "sgd", "01", 2);
		struct receipt r;
		float w[8];
		uint64_t v;

		push(x, 0, W, 1, 0, &r);
		push(x, 0, W, 0, 0, &r);
		push(x, 0, ROWS, 0, 0, &r);
		for (unsigned i = 2; i-- > 0;)
			clock_of(x, i, 0, 0, 3);
		clock_of(x, 1, 1, 0, 3);
		for (unsigned i = 2; i-- > 0;)
			dismiss(x->node[i].s, 1, 2);
		net_settle(x);
		ok(pull(x, 1, W, 1, w, &v) == SHARD_OK && v == 1 &&
		        pull(x, 1, ROWS, 1, w, &v) == SHARD_OK && v == 1,
		    "a step is averaged, partition by partition, over those who came");
		net_close(x);
	}
}

/* A head that sleeps, is succeeded, and goes on: nobody takes its copies, and so
 * it can promise nothing. */
static void the_old_head(void)
{
	for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
		struct net *x = net_open(modes[m], false, "sgd", "01", 1);
		struct receipt r, other;
		float w[8];
		uint64_t v;

		step_of(x, 0, 0, "01", &other);
		net_settle(x);
		net_layout(x, "1", -1);
		net_view(x, 1); /* server 0 sleeps */
		ok(push(x, 1, W, 0, 1, &other) == SHARD_OK && clock_of(x, 1, 0, 1, 1) == SHARD_OK &&
		        is_safe(x, 1, &other),
		    "%s: the new head goes on alone", modes[m]);
		ok(push(x, 0, W, 0, 1, &r) == SHARD_OK && clock_of(x, 0, 0, 1, 1) == SHARD_OK,
		    "%s: the old one takes a push", modes[m]);
		net_settle(x);
		ok(!is_safe(x, 0, &r), "%s: and cannot acknowledge it", modes[m]);
		ok(pull(x, 0, W, 1, w, &v) == SHARD_ELSEWHERE, "%s: nor answer a pull", modes[m]);
		ok(version_of(x->node[1].s, W, 0) == 2, "%s: its copies count for nothing",
		    modes[m]);
		/* An answer of the old epoch that was on its way counts no more. */
		net_view(x, 0);
		ok(push(x, 0, W, 0, 2, &r) == SHARD_ELSEWHERE &&
		        version_of(x->node[0].s, W, 0) == 2 &&
		        pull(x, 0, W, 1, w, &v) == SHARD_ELSEWHERE,
		    "%s: when it hears of its end it gives all up", modes[m]);
		net_close(x);
	}
}

/* A head takes a push while it is cut off, is succeeded without having heard of it, and
 * rejoins.  The version that it gave to the push now belongs to another history, which
 * has other pushes in its place. */
static void a_receipt_of_an_earlier_tenure(void)
{
	static const char *const chains[] = { "01", "012" }, *const later[] = { "1", "12" };

	for (unsigned c = 0; c < 2; c++)
		for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++)
			for (unsigned outside = 0; outside < 2; outside++) {
				struct net *x = net_open(modes[m], false, "sgd", chains[c], 2);
				unsigned last = (unsigned)strlen(chains[c]) - 1;
				const char *what = outside ? "a push from outside" : "a push";
				struct receipt r, other, again;

				step_of(x, 0, 0, chains[c], &other);
				net_settle(x);
				net_layout(x, later[c], -1);
				for (unsigned i = 1; i <= last; i++)
					net_view(x, i);
				push(x, 0, W, outside ? SHARD_OUTSIDE : 0, 1, &r);
				ok(r.status <= PUSH_MERGED && !is_safe(x, 0, &r),
				    "%s, chain of %u: the old head takes %s", modes[m], last + 1,
				    what);
				/* In bsp both workers push, so that the step closes; else one,
				 * often enough. */
				for (uint64_t step = 1; step < 6; step++) {
					for (uint32_t rank = !closes_steps(m); rank < 2; rank++) {
						push(x, 1, W, rank, step, &other);
						for (unsigned i = 1; i <= last; i++)
							clock_of(x, i, rank, step, 1);
					}
					net_settle(x);
				}
				ok(is_safe(x, 1, &other) &&
				        version_of(x->node[1].s, W, 0) >
				            version_of(x->node[0].s, W, 0),
				    "%s, chain of %u: the new head goes beyond it", modes[m],
				    last + 1);
				net_layout(x, later[c], 0);
				for (unsigned i = 0; i <= last; i++)
					net_view(x, i);
				ok(!is_safe(x, 0, &r) && has_left(x, 0, &r),
				    "%s, chain of %u: the old head leaves", modes[m], last + 1);
				while (shard_send_next_state(x->node[last].s, 0))
					;
				net_settle(x);
				ok(version_of(x->node[0].s, W, 0) ==
				            version_of(x->node[1].s, W, 0) &&
				        !is_safe(x, 0, &r) && has_left(x, 0, &r),
				    "%s, chain of %u: and acknowledges nothing of before when it is given a copy (%s)",
				    modes[m], last + 1, what);
				/* From now on it acknowledges pushes as any server does. */
				push(x, 1, W, outside ? SHARD_OUTSIDE : 0, closes_steps(m) ? 6 : 1,
				    &again);
				ok(again.status <= PUSH_MERGED,
				    "%s, chain of %u: the push is no duplicate at the new head",
				    modes[m], last + 1);
				net_close(x);
			}
}

/* A rank whose only push here was taken by a head that was succeeded.  The copy that it is
 * given later does not know the rank. */
static void a_rank_of_an_earlier_tenure(void)
{
	struct net *x = net_open("asp", false, "sgd", "01", 3);
	struct receipt r;

	push(x, 0, W, 0, 0, &r);
	net_settle(x);
	net_layout(x, "1", -1);
	net_view(x, 1);
	push(x, 0, W, 2, 0, &r);
	ok(r.status == PUSH_APPLIED && !is_safe(x, 0, &r),
	    "the old head takes the first push of a worker");
	net_layout(x, "1", 0);
	net_view(x, 1);
	net_view(x, 0);
	while (shard_send_next_state(x->node[1].s, 0))
		;
	net_settle(x);
	net_chain(x, "10", -1);
	net_chain(x, "0", -1);
	push(x, 0, W, 2, 0, &r);
	ok(r.status == PUSH_APPLIED,
	    "when it is the head again it takes that push, which no copy has had");
	push(x, 0, W, 0, 0, &r);
	ok(r.status == PUSH_DUPLICATE, "and knows the pushes that the copy has");
	net_close(x);
}

/* The middle of three has taken a copy that the last has not acknowledged, leaves, and is given
 * another copy: its acknowledgement of before is void. */
static void an_acknowledgement_of_an_earlier_tenure(void)
{
	for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
		struct net *x = net_open(modes[m], false, "sgd", "012", 1);
		struct pending_answer pending;
		struct receipt r;

		push(x, 0, W, 0, 0, &r);
		for (unsigned i = 0; i < 3; i++)
			clock_of(x, i, 0, 0, 1);
		net_send(x, 0, 1);
		net_deliver(x, 0, 1);
		pending = x->node[1].pending[0];
		ok(x->node[1].npending == 1 &&
		        !shard_is_safe(x->node[1].s, pending.table, pending.part, &pending.due),
		    "%s: the middle owes an acknowledgement", modes[m]);
		net_chain(x, "02", -1);
		net_settle(x);
		net_chain(x, "02", 1);
		while (shard_send_next_state(x->node[2].s, 1))
			;
		net_settle(x);
		ok(version_of(x->node[1].s, W, 0) == 1 &&
		        !shard_is_safe(x->node[1].s, pending.table, pending.part, &pending.due) &&
		        shard_has_left(x->node[1].s, pending.table, pending.part, &pending.due),
		    "%s: and owes it no more when it has left and come again", modes[m]);
		net_close(x);
	}
}

/* ---- refused pushes ---- */

static const float not_finite[N] = { NAN, NAN, NAN, NAN };

/* A push that is refused is refused again whenever it comes again, at the same head and at its
 * successors, whichever way they have learned of it. */
static void refused_again(void)
{
	static const char *const ways[] = { "from the head", "by a copy that is made later",
		"in a chain of three" };

	for (unsigned way = 0; way < 3; way++)
		for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
			const char *chain = way == 1 ? "0" : way == 2 ? "012" : "01";
			struct net *x = net_open(modes[m], false, "sgd", chain, 1);
			unsigned last = (unsigned)strlen(chain) - 1, heir = way == 2 ? 2 : 1;
			struct receipt r, again;

			push_values(x, 0, W, 0, 0, not_finite, &r);
			push_values(x, 0, W, 0, 0, not_finite, &again);
			ok(r.status == PUSH_REFUSED && again.status == PUSH_REFUSED,
			    "%s: refused, and refused again", modes[m]);
			push(x, 0, ROWS, 0, 0, &again);
			for (unsigned i = 0; i <= last; i++)
				clock_of(x, i, 0, 0, 3);
			ok(way == 1 || (!is_safe(x, 0, &r) && !is_safe(x, 0, &again)),
			    "%s: which is not said before all copies know it", modes[m]);
			if (way == 2) {
				net_send(x, 0, 1);
				while (net_deliver(x, 0, 1))
					;
				net_answer(x, 1, 0);
				ok(!is_safe(x, 0, &r), "%s: two of three are not all", modes[m]);
			}
			net_settle(x);
			ok(is_safe(x, 0, &r), "%s: then it is", modes[m]);
			if (way == 1) {
				net_start(x, 1);
				net_chain(x, "0", 1);
				while (shard_send_next_state(x->node[0].s, 1))
					;
				net_settle(x);
				net_chain(x, "01", -1);
				net_settle(x);
			}
			for (unsigned i = 0; i < heir; i++)
				net_kill(x, i);
			net_chain(x, heir == 2 ? "2" : "1", -1);
			push_values(x, heir, W, 0, 0, not_finite, &r);
			push(x, heir, ROWS, 0, 0, &again);
			ok(r.status == PUSH_REFUSED,
			    "%s: a successor that heard of it %s refuses it again", modes[m],
			    ways[way]);
			ok(again.status == PUSH_DUPLICATE, "%s: and knows what was taken",
			    modes[m]);
			push(x, heir, W, 0, 1, &again);
			push_values(x, heir, W, 0, 0, not_finite, &r);
			ok(again.status <= PUSH_MERGED && r.status == PUSH_REFUSED,
			    "%s: also after the next push", modes[m]);
			net_close(x);
		}
}

/* The head has closed a step without a push that comes late, and was succeeded: at its successor
 * the step may be open, and wait for that push. */
static void late_at_an_old_head(void)
{
	struct net *x = net_open("bsp", false, "sgd", "01", 2);
	struct receipt r;

	net_layout(x, "1", -1);
	net_view(x, 1);
	push(x, 0, W, 0, 0, &r);
	clock_of(x, 0, 0, 0, 1);
	clock_of(x, 0, 1, 0, 0); /* it does not say that it pushes here */
	push(x, 0, W, 1, 0, &r);
	ok(r.status == PUSH_LATE && !is_safe(x, 0, &r),
	    "an old head cannot say that a step is over");
	net_close(x);
}

/* The middle of three becomes the head while it still owes the last something
 * that is no sum. */
static void promoted_with_debts(void)
{
	float nan[N] = { NAN, NAN, NAN, NAN };
	struct net *x = net_open("bsp", false, "sgd", "012", 1);
	struct receipt r;

	push_values(x, 0, W, 0, 0, nan, &r);
	ok(r.status == PUSH_REFUSED, "a step with nothing but a refused push");
	for (unsigned i = 0; i < 3; i++)
		clock_of(x, i, 0, 0, 1);
	net_send(x, 0, 1);
	net_deliver(x, 0, 1);
	net_deliver(x, 0, 1);
	net_kill(x, 0);
	net_chain(x, "12", -1);
	net_settle(x);
	ok(push(x, 1, W, 0, 1, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "the new head takes pushes");
	for (unsigned i = 1; i < 3; i++)
		clock_of(x, i, 0, 1, 1);
	net_settle(x);
	ok(shard_closed(x->node[1].s) == 2 && is_safe(x, 1, &r), "and makes their steps");
	net_close(x);
}

/* ---- who joins ---- */

static bool fed(struct net *x, unsigned by, unsigned to)
{
	uint64_t all, begun, done;

	shard_count_states(x->node[by].s, (uint16_t)to, &all, &begun, &done);
	return all == TABLES && done == all;
}

/* The last becomes the only one while it gives a copy away. */
static void promoted_while_feeding(void)
{
	struct net *x = net_open("bsp", false, "sgd", "01", 1);
	struct receipt r;

	net_start(x, 2);
	net_chain(x, "01", 2);
	while (shard_send_next_state(x->node[1].s, 2))
		;
	net_kill(x, 0);
	net_chain(x, "1", 2);
	net_settle(x);
	step_of(x, 1, 0, "12", &r);
	net_settle(x);
	ok(fed(x, 1, 2), "a copy is made although its giver becomes the head meanwhile");
	ok(shard_closed(x->node[1].s) == 1 && is_safe(x, 1, &r), "and steps go on");
	net_chain(x, "12", -1);
	net_settle(x);
	ok(shard_closed(x->node[1].s) == 1 && all_alike(x, 1), "on both alike");
	net_close(x);
}

static void add_mode(struct net *x, unsigned i, uint32_t number, uint64_t step, const char *mode)
{
	struct settings_epoch r = { .step = step, .number = number, .rule = x->cfg.rule };

	sync_parse(mode, &r.mode, NULL);
	r.hyper = x->cfg.hyper;
	r.schedule = x->cfg.schedule;
	shard_add_epoch(x->node[i].s, &r);
}

/* A bsp of one step between two other modes, without a push. early: the joining server learns of the modes before
 * it learns of any worker; otherwise its gate goes through them while the copies are on their way. */
static void joins_between_modes(bool early)
{
	struct net *x = net_open("asp", false, "sgd", "0", 2);
	float w[8];
	uint64_t v;
	bool good = true;

	net_start(x, 1);
	for (unsigned i = 0; i < 2; i++) {
		add_mode(x, i, 1, 3, "bsp");
		add_mode(x, i, 2, 4, "ssp:4");
	}
	net_chain(x, "0", 1);
	while (shard_send_next_state(x->node[0].s, 1))
		;
	net_send(x, 0, 1);
	if (early)
		net_settle(x);
	for (uint64_t step = 0; step < 5; step++)
		for (unsigned k = 0; k < 4; k++)
			good &= clock_of(x, k / 2, k % 2, step, 0) == SHARD_OK;
	net_settle(x);
	net_chain(x, "01", -1);
	net_settle(x);
	ok(good && pull(x, 1, W, 5, w, &v) == SHARD_OK,
	    "modes change %s: the joined server shows later values",
	    early ? "after a server has joined" : "while a server joins");
	net_close(x);
}

/* A replica hears of the last steps of a bsp when its gate is in the next bsp already, and becomes the head. */
static void becomes_head_between_modes(void)
{
	struct net *x = net_open("bsp", false, "sgd", "01", 1);
	struct receipt r;
	float w[8];
	uint64_t v;
	bool good = true;

	for (unsigned i = 0; i < 2; i++) {
		add_mode(x, i, 1, 2, "asp");
		add_mode(x, i, 2, 4, "bsp");
	}
	for (uint64_t step = 0; step < 2; step++) {
		good &= step_of(x, 0, step, "0", &r);
		good &= clock_of(x, 1, 0, step, 3) == SHARD_OK;
		if (!step)
			net_settle(x);
	}
	for (uint64_t step = 2; step < 4; step++)
		good &= clock_of(x, 1, 0, step, 0) == SHARD_OK;
	shard_advance(x->node[0].s);
	while (net_send(x, 0, 1) || net_deliver(x, 0, 1))
		;
	net_kill(x, 0);
	net_chain(x, "1", -1);
	ok(good && pull(x, 1, W, 4, w, &v) == SHARD_OK,
	    "a replica that becomes the head after a change of modes is in the present one");
	ok(step_of(x, 1, 4, "1", &r) && shard_closed(x->node[1].s) == 5, "and closes its steps");
	net_close(x);
}

/* A copy for a joining server while pushes go on; its link breaks after `cut`
 * events of any kind, and is made again. */
static bool joins(const char *mode, bool deterministic, const char *chain, unsigned cut, bool again)
{
	struct net *x = net_open(mode, deterministic, "adagrad", chain, 2);
	unsigned last = (unsigned)(chain[strlen(chain) - 1] - '0'), events = 0;
	char longer[8], told[8];
	struct receipt r;
	bool good = true;
	uint64_t step = 0;

	snprintf(longer, sizeof longer, "%s3", chain);
	snprintf(told, sizeof told, "%s", longer);
	for (; step < 2; step++) {
		good &= step_of(x, 0, step, chain, &r);
		net_settle(x);
	}
	net_start(x, 3);
	net_chain(x, chain, 3);
	/* As a worker does that hears of a new server. */
	for (uint32_t rank = 0; rank < 2; rank++)
		clock_of(x, 3, rank, step - 1, 3);
	for (unsigned round = 0; round < 400 && !(fed(x, last, 3) && step > 5); round++) {
		if (round % 5 == 0 && step < 9 && is_safe(x, 0, &r))
			good &= step_of(x, 0, step++, told, &r);
		if (round % 3 == 1)
			shard_send_next_state(x->node[last].s, 3);
		for (unsigned a = 0; a < last; a++) {
			net_send(x, a, a + 1);
			net_deliver(x, a, a + 1);
			net_answer(x, a + 1, a);
		}
		events += net_send(x, last, 3) > 0;
		if (events == cut)
			net_relink(x, last, 3), events++;
		events += net_deliver(x, last, 3);
		if (events == cut)
			net_relink(x, last, 3), events++;
		if (again && round % 7 == 6) /* and what has no answer once more */
			net_relink(x, last, 3);
		if (round % 2)
			events += net_answer(x, 3, last);
		if (events == cut)
			net_relink(x, last, 3), events++;
	}
	good &= fed(x, last, 3);
	net_layout(x, longer, -1);
	for (unsigned i = NODES; i-- > 0;)
		if (x->node[i].s)
			net_view(x, i);
	net_settle(x);
	good &= is_safe(x, 0, &r) && step_of(x, 0, step++, longer, &r);
	net_settle(x);
	good &= is_safe(x, 0, &r) && replicas_of(x->node[0].s, W, 0) == strlen(longer) && !x->bad;
	good &= all_alike(x, step);
	net_close(x);
	return good;
}

static void joining(const char *policy)
{
	static const char *const chains[] = { "0", "01" };

	if (row_policy_parse(policy, &fixture_policy, NULL))
		abort();
	for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++)
		for (unsigned c = 0; c < 2; c++) {
			unsigned bad = 0, worst = 0;

			for (unsigned cut = 0; cut < 60; cut++)
				for (unsigned k = 0; k < 4; k++)
					if (!joins(modes[m], m == 0 && k % 2, chains[c], cut,
					        k / 2)) {
						bad++;
						worst = cut * 10 + k;
					}
			ok(bad == 0,
			    "%s, chain of %zu, policy %s: a server joins, its link broken anywhere (%u of 240, last %u)",
			    modes[m], strlen(chains[c]), policy, bad, worst);
		}
	fixture_policy = (struct row_policy){ 0 };
}

/* A server misses layouts when its session with the coordinator breaks.  In one that it missed,
 * the server that it makes a copy for was taken out and has dropped what it had. */
static void layouts_missed(void)
{
	for (unsigned was = 0; was < 2; was++)
		for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
			const char *what = was ? "the next of the chain"
			                       : "one that was given a copy";
			struct net *x = net_open(modes[m], false, "sgd", was ? "01" : "0", 1);
			struct receipt r;
			bool good;

			if (!was) {
				net_start(x, 1);
				net_chain(x, "0", 1);
				while (shard_send_next_state(x->node[0].s, 1))
					;
			}
			good = step_of(x, 0, 0, "01", &r);
			net_settle(x);
			ok(good && is_safe(x, 0, &r) && (was || fed(x, 0, 1)), "%s: %s has all",
			    modes[m], what);
			net_layout(x, "0", -1);
			net_view(x, 1);
			net_layout(x, "0", 1);
			net_view(x, 1);
			net_view(x, 0);
			ok(!fed(x, 0, 1),
			    "%s: it has dropped it, and the sender does not count on it", modes[m]);
			while (shard_send_next_state(x->node[0].s, 1))
				;
			net_settle(x);
			ok(fed(x, 0, 1), "%s: and makes a copy once more", modes[m]);
			net_chain(x, "01", -1);
			good = step_of(x, 0, 1, "01", &r);
			net_settle(x);
			ok(good && is_safe(x, 0, &r) && all_alike(x, 2), "%s: then all goes on",
			    modes[m]);
			net_close(x);
		}
}

/* What a joining server dies of: nothing else does. */
static void joiner_dies(void)
{
	for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
		struct net *x = net_open(modes[m], false, "sgd", "01", 1);
		struct receipt r;
		bool good = true;

		net_start(x, 2);
		net_chain(x, "01", 2);
		shard_send_next_state(x->node[1].s, 2);
		net_send(x, 1, 2);
		net_deliver(x, 1, 2);
		net_answer(x, 2, 1); /* nothing counts without it now, and it dies */
		good &= step_of(x, 0, 0, "01", &r);
		net_send(x, 0, 1);
		while (net_deliver(x, 0, 1))
			;
		net_answer(x, 1, 0);
		ok(!shard_is_safe(x->node[0].s, W, 0,
		       &(struct receipt_condition){ .steps = !m, .version = m > 0 }),
		    "%s: a copy that counts is waited for", modes[m]);
		net_kill(x, 2);
		net_chain(x, "01", -1);
		net_settle(x);
		good &= is_safe(x, 0, &r) && step_of(x, 0, 1, "01", &r);
		net_settle(x);
		ok(good && is_safe(x, 0, &r) && all_alike(x, 2), "%s: when it is out all goes on",
		    modes[m]);
		net_close(x);
	}
}

/* ---- nothing at all ---- */

/* A push of no rows: allowed on the wire, and no reason for copies to part. */
static void empty_pushes(void)
{
	for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
		struct net *x = net_open(modes[m], false, "sgd", "01", 1);
		struct push none = { .incarnation = inc_of(0),
			.table = ROWS,
			.examples = 2,
			.payload = (const uint8_t *)"",
			.ids = (const uint8_t *)"" };
		struct receipt r;

		shard_push(x->node[0].s, &none, &r);
		for (unsigned i = 0; i < 2; i++)
			clock_of(x, i, 0, 0, 2);
		net_settle(x);
		step_of(x, 0, 1, "01", &r);
		net_settle(x);
		ok(!x->bad && is_safe(x, 0, &r), "%s: after a push of no rows copies go on",
		    modes[m]);
		ok(version_of(x->node[0].s, ROWS, 0) == version_of(x->node[1].s, ROWS, 0),
		    "%s: at one version", modes[m]);
		net_close(x);
	}
}

/* Pushes one row, which `touching` of the rank's 65000 examples touch. */
static bool push_touching(struct net *x, uint32_t rank, uint64_t step, uint32_t touching)
{
	uint64_t id = 1;
	uint8_t body[COLS * sizeof(float) + PAYLOAD_COUNT_BYTES];
	struct push p = { .rank = rank,
		.incarnation = inc_of(rank),
		.step = step,
		.table = ROWS,
		.examples = 65000,
		.nrows = 1,
		.ids = (const uint8_t *)&id,
		.payload = body,
		.len = COLS * sizeof(float),
		.touching = body + COLS * sizeof(float) };
	float g[COLS] = { 1, -2 };
	struct receipt r;

	memcpy(body, g, sizeof g);
	put_le32(body + sizeof g, touching);
	return shard_push(x->node[0].s, &p, &r) == SHARD_OK;
}

/* Two ranks push a row that more examples touch than 16 bits hold. */
static void many_touching(void)
{
	for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
		struct net *x = net_open_with(modes[m], false, "sgd", 0.5f, "01", 2);
		float w[2][8] = { { 0 } };
		uint64_t v;
		bool good = true;

		for (uint64_t step = 0; step < 3; step++) {
			for (uint32_t rank = 0; rank < 2; rank++)
				good &= push_touching(x, rank, step, 60000);
			for (uint32_t rank = 0; rank < 2; rank++)
				for (unsigned i = 0; i < 2; i++)
					good &= clock_of(x, i, rank, step, 2) == SHARD_OK;
			net_settle(x);
		}
		for (unsigned i = 0; i < 2; i++) {
			net_layout(x, i ? "1" : "0", -1);
			net_view(x, i);
			good &= pull(x, i, ROWS, 3, w[i], &v) == SHARD_OK;
		}
		ok(good && !x->bad && memcmp(w[0], w[1], sizeof w[0]) == 0,
		    "%s: copies decay a row by the same count of examples: %.9g, %.9g", modes[m],
		    (double)w[0][2], (double)w[1][2]);
		net_close(x);
	}
}

/* Rows whose pushes are applied on arrival, in the middle of a step: a refusal and a push are safe
 * before the step ends, and a successor knows both. */
static void arrivals_of_an_open_step(void)
{
	struct net *x = net_open("bsp rows", false, "sgd", "01", 3);
	struct receipt refused, r;

	push_values(x, 0, ROWS, 0, 0, not_finite, &refused);
	push(x, 0, ROWS, 1, 0, &r);
	ok(refused.status == PUSH_REFUSED && !is_safe(x, 0, &refused),
	    "a refusal waits for the copy");
	ok(r.status == PUSH_APPLIED && !is_safe(x, 0, &r), "and so does a push");
	net_settle(x);
	ok(is_safe(x, 0, &refused) && is_safe(x, 0, &r) && shard_closed(x->node[0].s) == 0,
	    "both are safe in the middle of the step");
	net_kill(x, 0);
	net_chain(x, "1", -1);
	push_values(x, 1, ROWS, 0, 0, not_finite, &refused);
	push(x, 1, ROWS, 1, 0, &r);
	ok(refused.status == PUSH_REFUSED && r.status == PUSH_DUPLICATE &&
	        version_of(x->node[1].s, ROWS, 0) == 1,
	    "the successor refuses the one again, and has the other one");
	for (uint32_t rank = 0; rank < 3; rank++) {
		push(x, 1, W, rank, 0, &r);
		clock_of(x, 1, rank, 0, 1);
	}
	ok(shard_closed(x->node[1].s) == 1, "and closes the step");
	net_close(x);
}

/* More ranks push in a step than changes may be on the way to the next replica. */
static void arrivals_wait_for_room(void)
{
	enum { RANKS = SHARD_SENT_MAX + 4 };
	struct net *x = net_open("bsp rows", false, "sgd", "01", RANKS);
	struct receipt r;
	unsigned taken = 0;

	for (uint32_t rank = 0; rank < RANKS; rank++)
		taken += push(x, 0, ROWS, rank, 0, &r) == SHARD_OK;
	ok(taken == SHARD_SENT_MAX, "%u of %d pushes are taken", taken, RANKS);
	net_settle(x);
	for (uint32_t rank = 0; rank < RANKS; rank++)
		taken += push(x, 0, ROWS, rank, 0, &r) == SHARD_OK && r.status == PUSH_APPLIED;
	net_settle(x);
	ok(taken == RANKS && version_of(x->node[1].s, ROWS, 0) == RANKS,
	    "the others when the next replica has those");
	net_close(x);
}

/* Rows whose pushes are applied on arrival: the last replica gets a push of step 1 before it hears that
 * step 0 is closed, and a checkpoint of step 1 must not have it. */
static void checkpoint_before_the_clock(void)
{
	struct net *x = net_open("bsp rows", false, "sgd", "01", 1);
	struct ckpt_part *parts;
	struct receipt r;
	bool found = false;
	uint64_t at;
	size_t n;

	ok(shard_snap_begin(x->node[1].s, 1, &at), "a snapshot is ordered for step 1");
	push(x, 0, ROWS, 0, 0, &r);
	clock_of(x, 0, 0, 0, 2);
	push(x, 0, ROWS, 0, 1, &r);
	ok(r.status == PUSH_APPLIED, "the head takes a push of step 1");
	net_settle(x);
	ok(is_safe(x, 0, &r) && version_of(x->node[1].s, ROWS, 0) == 2,
	    "the last replica has it, too, without a CLOCK");
	clock_of(x, 1, 0, 0, 2);
	ok(shard_snap_take(x->node[1].s) == SHARD_OK && shard_snap_parts(x->node[1].s, &parts, &n),
	    "the snapshot is taken");
	for (size_t i = 0; i < n; i++)
		found |= strcmp(parts[i].table, "rows") == 0 && parts[i].version == 1 &&
		    parts[i].step == 1 && parts[i].nlast == 1 && parts[i].last[0] == 1;
	ok(found, "without the push of step 1");
	shard_snap_release(parts, n);
	net_close(x);
}

int main(void)
{
	alike();
	compensated();
	receipts_wait();
	nothing_shown_that_can_be_lost();
	a_claim_is_waited_for();
	own_pushes_are_shown();
	a_lost_worker_is_shown_nothing();
	pushes_before_bsp_are_shown();
	replicated_pushes_count_in_votes();
	closed_steps_count_in_votes();
	means_survive();
	a_claim_of_one_that_is_gone();
	torn_steps();
	the_old_head();
	a_receipt_of_an_earlier_tenure();
	a_rank_of_an_earlier_tenure();
	an_acknowledgement_of_an_earlier_tenure();
	refused_again();
	late_at_an_old_head();
	promoted_with_debts();
	promoted_while_feeding();
	becomes_head_between_modes();
	joins_between_modes(true);
	joins_between_modes(false);
	joining("none");
	joining("values=bf16,admit=2,expire=6");
	layouts_missed();
	joiner_dies();
	empty_pushes();
	many_touching();
	checkpoint_before_the_clock();
	arrivals_of_an_open_step();
	arrivals_wait_for_room();
	return tap_done();
}
