/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "data/source/data_log.h"
#include "worker/batches_state.h"
#include "worker/stream_batch.h"

/* Leases of the partitions of a stream (batches.h).
 *
 * A worker holds some partitions and takes each batch from one of them: from the one of the batch before,
 * while that has a whole batch and the others have not waited too long, else from the next one that has.
 * When none has a whole batch, events wait for at most LINGER; then they are a batch that is smaller. When
 * nothing arrives for IDLE, the step has no examples, so that workers that wait for this step go on; while
 * others train, such a step is made at once.
 *
 * The coordinator counts numbers of examples (stream_batch.h) by the steps since a worker last said
 * where it is (coord/leases.h). So before a push the worker announces where it is, unless the batch
 * follows on the one before in the same partition and has the same span; and it rests on all
 * partitions before a step in which it trains on none of them.
 * An announcement waits until all pushes have their receipts. While batches of one partition follow on one
 * another, it is repeated now and then, so that the next worker has few events to read again, and so that the
 * coordinator's place does not fall behind what the stream keeps. */

#define LINGER (50 * NSEC_PER_MSEC)
#define IDLE   (100 * NSEC_PER_MSEC)
/* How long one partition is trained on while others have whole batches, too. */
#define TURN (200 * NSEC_PER_MSEC)
/* How old the announced place of a partition in work may be. */
#define PLACE_AGE (2 * NSEC_PER_SEC)
/* How often the coordinator is asked for more partitions, and told how far all are. */
#define ASK_EVERY (200 * NSEC_PER_MSEC)
/* How often a worker asks that has no partition. */
#define ASK_EVERY_IDLE (50 * NSEC_PER_MSEC)

/* A partition that this worker has leased. */
struct held {
	struct leased_range range;
	uint64_t skip;     /* ready events that were trained on before (stream_batch_skipped) */
	int64_t waiting;   /* when the oldest ready event was first seen; 0: none is ready */
	int64_t announced; /* when its place was announced last */
	/* of the checkpoints that exist, as the stream was told; ids are 0 */
	struct answer_kept kept;
};

struct partitions {
	struct data_log *log;
	struct held *held;
	size_t n;
	struct held *present; /* of the present batch; NULL: it is empty */
	size_t last;          /* of the last batch that was not empty */
	int64_t turn_began;
	struct stream_batch taken; /* the present batch */
	int64_t asked;
};

static struct partitions *partitions_of(const struct batches *f)
{
	return f->lease_state;
}

static size_t partition_of(const struct held *h)
{
	return (size_t)h->range.units.begin;
}

static void begin_stream_leases(struct batches *f)
{
	struct partitions *x = f->lease_state = mem_alloc(sizeof *x);

	x->log = f->job->stream;
}

static void end_stream_leases(struct batches *f)
{
	struct partitions *x = partitions_of(f);

	for (size_t i = 0; i < x->n; i++) {
		data_log_drop(x->log, partition_of(&x->held[i]));
		leased_range_release(&x->held[i].range);
	}
	free(x->held);
	free(x);
}

/* ---- what the coordinator is told ---- */

/* The place of the next event to train on, as far as it is known. */
static void note_place(const struct partitions *x, struct held *h)
{
	if (!h->skip)
		stream_batch_note_place(x->log, &h->range);
}

/* Tells the stream what the checkpoints have, as the coordinator says: a checkpoint that was begun may fail,
 * so that its places free nothing. */
static void commit_places(struct partitions *x, const struct answer_lease *lease)
{
	uint64_t i = 0;

	/* The answer lists partitions in the order in which the request has them. */
	for (size_t k = 0; i < lease->nkept && k < x->n; k++) {
		const struct answer_kept *kept = &lease->kept[i];
		struct held *h = &x->held[k];

		if (h->range.units.id != (uint64_t)kept->id)
			continue;
		i++;
		if (h->kept.newest == kept->newest && h->kept.oldest == kept->oldest)
			continue;
		h->kept = *kept;
		data_log_commit(x->log, partition_of(h), kept->newest, kept->oldest);
	}
}

/* Says how far it is on all partitions, and perhaps asks for one more. Of all pushes that this reports there
 * are receipts. */
static enum err_code request(struct batches *f, bool more, struct answer_lease *lease,
    json_t **answer, struct err *e)
{
	struct partitions *x = partitions_of(f);
	json_t *holds = json_array();
	enum err_code rc;

	for (size_t i = 0; i < x->n; i++)
		json_array_append_new(holds, leased_range_to_json(&x->held[i].range));
	x->asked = clock_now();
	rc = batches_request_lease(f,
	    &(struct message_lease){ .more = more, .step = (int64_t)f->step }, json_array(), holds,
	    lease, answer, e);
	if (!rc)
		commit_places(x, lease);
	return rc;
}

/* Does the batch follow on the one before, as was announced? */
static bool follows_announced(const struct batches *f, const struct held *h, uint64_t batch)
{
	const struct attempt *own = &h->range.own;

	return own->batch == batch &&
	    f->step == own->step + (h->range.used - own->from) / own->batch;
}

/* Rests on all partitions but this one, which may be NULL, and on that one announces a batch of this span.
 * *news: the coordinator does not know that, or only an old place. */
static void set_places(struct batches *f, const struct held *in_work, uint64_t span, bool *news)
{
	struct partitions *x = partitions_of(f);
	bool up = agent_is_up(cluster_view_agent(f->cluster));
	int64_t now = clock_now();

	for (size_t i = 0; i < x->n; i++) {
		struct held *h = &x->held[i];
		struct attempt *own = &h->range.own;
		uint64_t batch = h == in_work ? span : 0;

		if (h != in_work && !own->batch)
			continue;
		if (batch && follows_announced(f, h, batch) &&
		    (!up || now - h->announced < PLACE_AGE))
			continue;
		*news = true;
		h->announced = now;
		*own = (struct attempt){ .from = h->range.used, .step = f->step, .batch = batch };
		note_place(x, h);
	}
}

/* Tells the coordinator, before anything is pushed, what is to be trained on in this step. */
static enum err_code announce(struct batches *f, const struct held *in_work, uint64_t span,
    struct err *e)
{
	struct answer_lease lease;
	bool news = false;
	json_t *answer;
	enum err_code rc;

	set_places(f, in_work, span, &news);
	if (!news)
		return ERR_OK;
	rc = f->hooks.await_receipts(f->hooks.ctx, e);
	if (!rc)
		rc = request(f, false, &lease, &answer, e);
	if (rc)
		return rc;
	answer_release_lease(&lease);
	json_decref(answer);
	return ERR_OK;
}

/* ---- leases ---- */

/* Begins to read a partition that was leased: from the last known place on. Where that is not the place
 * of the first event to train on, the events between are skipped when they come. */
static enum err_code add_partition(struct batches *f, const struct answer_task *task, struct err *e)
{
	struct partitions *x = partitions_of(f);
	struct held *h;
	enum err_code rc;
	size_t last = x->present ? (size_t)(x->present - x->held) : SIZE_MAX;

	x->held = mem_regrow(x->held, x->n + 1, sizeof *x->held);
	x->present = last == SIZE_MAX ? NULL : &x->held[last];
	h = &x->held[x->n];
	memset(h, 0, sizeof *h);
	rc = leased_range_decode(task, f->step, &h->range, e);
	if (rc)
		return rc;
	if (h->range.own.batch || h->range.placed > h->range.used) {
		leased_range_release(&h->range);
		return err_set(e, ERR_PROTO,
		    "the coordinator leased a partition of the stream that has an unfinished "
		    "batch");
	}
	h->skip = stream_batch_skipped(x->log, &h->range);
	rc = data_log_seek(x->log, partition_of(h), stream_batch_place(x->log, &h->range), e);
	if (rc)
		leased_range_release(&h->range);
	else
		x->n++;
	return rc;
}

/* Removes a partition on which it rests. */
static void remove_partition(struct partitions *x, size_t i)
{
	data_log_drop(x->log, partition_of(&x->held[i]));
	leased_range_release(&x->held[i].range);
	memmove(&x->held[i], &x->held[i + 1], (--x->n - i) * sizeof *x->held);
	x->present = NULL;
	x->last = 0;
}

/* Gives the partition back for which the fewest events wait: another worker has fewer of them. */
static enum err_code give_back(struct batches *f, struct err *e)
{
	struct partitions *x = partitions_of(f);
	struct answer_lease lease;
	json_t *answer;
	size_t least = 0;
	enum err_code rc = announce(f, NULL, 0, e);

	if (rc)
		return rc;
	for (size_t i = 1; i < x->n; i++)
		if (data_log_lag(x->log, partition_of(&x->held[i])) <
		    data_log_lag(x->log, partition_of(&x->held[least])))
			least = i;
	remove_partition(x, least);
	rc = request(f, false, &lease, &answer, e);
	if (rc)
		return rc;
	answer_release_lease(&lease);
	json_decref(answer);
	return ERR_OK;
}

/* Asks for more partitions, now and then, and gives one back when another worker needs it. While the
 * coordinator is away, training goes on as long as nothing is to be announced. */
static enum err_code tend_leases(struct batches *f, struct err *e)
{
	struct partitions *x = partitions_of(f);
	bool more = true, surplus = false;
	enum err_code rc = ERR_OK;

	if (clock_now() - x->asked < (x->n ? ASK_EVERY : ASK_EVERY_IDLE) ||
	    (x->n && !agent_is_up(cluster_view_agent(f->cluster))))
		return ERR_OK;
	for (size_t i = 0; i < x->n; i++)
		if (!x->held[i].range.own.batch)
			note_place(x, &x->held[i]);
	while (!rc && more) {
		struct answer_lease lease;
		json_t *answer;

		rc = request(f, true, &lease, &answer, e);
		if (rc)
			return rc;
		more = lease.task != NULL;
		surplus = !more && lease.surplus;
		if (more)
			rc = add_partition(f, lease.task, e);
		answer_release_lease(&lease);
		json_decref(answer);
	}
	return !rc && surplus && x->n ? give_back(f, e) : rc;
}

/* ---- batches ---- */

/* Drops the events that were trained on before, and notes since when others wait. Notes where a partition
 * begins that nobody has begun. */
static void look_at_ready(const struct partitions *x, struct held *h, int64_t now)
{
	size_t ready = data_log_ready(x->log, partition_of(h)),
	       gone = h->skip < ready ? (size_t)h->skip : ready;

	if (gone) {
		data_log_skip(x->log, partition_of(h), gone);
		h->skip -= gone;
	}
	if (ready == gone)
		h->waiting = 0;
	else if (!h->waiting)
		h->waiting = now;
	if (h->range.place < 0)
		note_place(x, h);
}

/* A partition that has a batch; NULL: none now. */
static struct held *find_batch(struct batches *f, int64_t now, struct stream_batch *b)
{
	struct partitions *x = partitions_of(f);
	struct held *oldest = NULL;

	for (size_t i = 0; i < x->n; i++)
		look_at_ready(x, &x->held[i], now);
	for (size_t k = 0; k < x->n; k++) {
		size_t i = (x->last + k + (now - x->turn_began > TURN)) % x->n;
		struct held *h = &x->held[i];

		*b = h->skip ? (struct stream_batch){ 0 }
		             : stream_batch_whole(x->log, &h->range, f->batch, f->step);
		if (b->span)
			return h;
		/* Repeat the whole of every batch that a lost worker may have pushed. */
		if (h->waiting && !leased_range_repeats(&h->range) &&
		    (!oldest || h->waiting < oldest->waiting))
			oldest = h;
	}
	if (!oldest || now - oldest->waiting < LINGER)
		return NULL;
	*b = stream_batch_rest(x->log, &oldest->range);
	return b->span ? oldest : NULL;
}

/* The time to wait for an event. Events that have arrived wait for LINGER all the same. */
static int64_t choose_idle_time(const struct batches *f)
{
	return f->hooks.awaited(f->hooks.ctx) ? 0 : IDLE;
}

/* Waits for a batch. NULL: nothing came in time. */
static enum err_code await_batch(struct batches *f, struct held **found, struct stream_batch *b,
    struct err *e)
{
	struct partitions *x = partitions_of(f);
	int64_t begin = clock_now(), now = begin, idle = choose_idle_time(f);
	enum err_code rc = ERR_OK;

	if (!x->n) {
		if (idle)
			rc = cluster_view_await_change(f->cluster, idle, e);
		f->idled += clock_now() - begin;
		return rc;
	}
	for (size_t i = 0; i < x->n; i++)
		data_log_need(x->log, partition_of(&x->held[i]),
		    (size_t)stream_batch_need(x->log, &x->held[i].range, f->batch));
	rc = data_log_fetch(x->log, 0, e);
	while (!rc && !(*found = find_batch(f, now, b)) && now - begin < idle) {
		int64_t until = begin + idle;

		for (size_t i = 0; i < x->n; i++)
			if (x->held[i].waiting && x->held[i].waiting + LINGER < until)
				until = x->held[i].waiting + LINGER;
		rc = data_log_fetch(x->log, until > now ? clock_poll_timeout(until - now) : 1, e);
		now = clock_now();
	}
	f->idled += now - begin;
	return rc;
}

/* Logs that another worker was ended, because it was stopped and kept others from moving a pipe's lines. */
static void log_ended_holder(struct batches *f)
{
	struct data_log *l = partitions_of(f)->log;
	int pid = data_log_ended_holder(l);

	if (pid)
		log_warn(f->hooks.log,
		    "killed process %d: it was stopped and kept the lock of %s.spool while lines "
		    "waited",
		    pid, data_log_name(l));
}

static void sum_lag(struct batches *f)
{
	const struct partitions *x = partitions_of(f);

	f->lag = 0;
	for (size_t i = 0; i < x->n; i++) {
		uint64_t lag = data_log_lag(x->log, partition_of(&x->held[i]));

		f->lag += lag > x->held[i].skip ? lag - x->held[i].skip : 0;
	}
}

/* Fills b with the next n events of a partition, without those that are bad. */
static enum err_code load_batch(struct batches *f, const struct held *h, uint64_t n,
    struct batch *b, struct err *e)
{
	struct partitions *x = partitions_of(f);
	struct data_want want = job_want(&f->job->conf.job);
	struct dataset *d;
	uint32_t *all;
	enum err_code rc;

	b->rows = 0;
	b->epoch = 0;
	/* All events of a batch that is repeated are gone. */
	if (!n)
		return ERR_OK;
	want.bad = f->job->bad;
	rc = data_log_load(x->log, partition_of(h), (size_t)n, &want, f->job->train, &d, e);
	if (rc || !d)
		return rc;
	all = mem_array(d->rows, sizeof *all);
	for (uint32_t i = 0; i < d->rows; i++)
		all[i] = i;
	rc = data_gather(d, all, d->rows, b, e);
	free(all);
	dataset_free(d);
	return rc;
}

static enum err_code choose_batch_of_stream(struct batches *f, struct batch *b, bool *over,
    struct err *e)
{
	struct partitions *x = partitions_of(f);
	struct stream_batch taken = { 0 };
	struct held *h = NULL;
	enum err_code rc;

	x->present = NULL;
	x->taken = taken;
	*over = f->steps && f->step >= f->steps;
	if (*over)
		return ERR_OK;
	rc = tend_leases(f, e);
	if (!rc)
		rc = await_batch(f, &h, &taken, e);
	log_ended_holder(f);
	if (!rc)
		rc = announce(f, h, taken.span, e);
	if (rc)
		return rc;
	sum_lag(f);
	if (!h) {
		b->rows = 0;
		return ERR_OK;
	}
	if (&x->held[x->last] != h || clock_now() - x->turn_began > TURN)
		x->turn_began = clock_now();
	x->last = (size_t)(h - x->held);
	x->present = h;
	x->taken = taken;
	return load_batch(f, h, taken.events, b, e);
}

static void mark_events_used(struct batches *f)
{
	struct partitions *x = partitions_of(f);

	if (x->present) {
		x->present->range.used += x->taken.span;
		data_log_skip(x->log, partition_of(x->present), (size_t)x->taken.events);
		/* Later events have arrived since. */
		x->present->waiting = 0;
	}
	x->present = NULL;
	x->taken = (struct stream_batch){ 0 };
	f->step++;
}

static enum err_code lease_nothing(struct batches *f, struct err *e)
{
	(void)f;
	(void)e;
	return ERR_OK;
}

static enum err_code finish_stream_leases(struct batches *f, struct err *e)
{
	return announce(f, NULL, 0, e);
}

static const struct leased_range *present_partition(const struct batches *f)
{
	return partitions_of(f)->present ? &partitions_of(f)->present->range : NULL;
}

const struct lease_ops leases_of_stream = {
	.begin = begin_stream_leases,
	.choose = choose_batch_of_stream,
	.used = mark_events_used,
	.ahead = lease_nothing,
	.finish = finish_stream_leases,
	.present = present_partition,
	.end = end_stream_leases,
};
