/* SPDX-License-Identifier: ISC */
#include "sync/sync.h"

#include "core/mem.h"
#include "core/steps.h"

static const struct sync_ops *const modes[] = {
#define MODE(name, form) &sync_##name,
#include "sync/sync.def"
#undef MODE
};
static const char *const forms[] = {
#define MODE(name, form) form,
#include "sync/sync.def"
#undef MODE
};

const struct sync_ops *sync_ops_at(size_t i)
{
	return i < sizeof modes / sizeof *modes ? modes[i] : NULL;
}

bool sync_same(const struct sync_mode *a, const struct sync_mode *b)
{
	return a->ops == b->ops && a->staleness == b->staleness && a->backup == b->backup &&
	    a->stale.ops == b->stale.ops && a->stale.lambda == b->stale.lambda;
}

/* Fails with the list of all modes. */
static enum err_code refuse_mode(const char *text, struct err *e)
{
	const size_t n = sizeof modes / sizeof *modes;
	char list[160] = "";
	size_t len = 0;

	for (size_t i = 0; i < n && len < sizeof list; i++)
		len += (size_t)snprintf(list + len, sizeof list - len, "%s%s",
		    !i              ? ""
		        : i + 1 < n ? ", "
		                    : " or ",
		    forms[i]);
	return err_set(e, ERR_CONFIG, "must be %s, got \"%.80s\"", list, text);
}

enum err_code sync_parse(const char *text, struct sync_mode *out, struct err *e)
{
	size_t len = strcspn(text, ":");

	*out = (struct sync_mode){ 0 };
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		struct sync_mode m = { .ops = modes[i] };

		if (strlen(m.ops->name) != len || memcmp(text, m.ops->name, len) != 0)
			continue;
		if (!m.ops->parse(text[len] ? text + len + 1 : NULL, &m))
			return err_set(e, ERR_CONFIG, "must be %s, got \"%.80s\"", m.ops->accepts,
			    text);
		*out = m;
		return ERR_OK;
	}
	return refuse_mode(text, e);
}

void sync_format(const struct sync_mode *m, char out[static 32])
{
	if (m->ops)
		m->ops->format(m, out);
	else
		snprintf(out, 32, "unknown");
}

void sync_init(struct sync *s, struct sync_mode mode)
{
	*s = (struct sync){ .mode = mode, .vote_from = SYNC_NEVER, .next_mode_from = SYNC_NEVER };
}

void sync_release(struct sync *s)
{
	free(s->rank);
	*s = (struct sync){ 0 };
}

struct sync_rank *sync_at(struct sync *s, size_t rank)
{
	if (rank >= s->nranks) {
		s->rank = mem_regrow(s->rank, rank + 1, sizeof *s->rank);
		memset(s->rank + s->nranks, 0, (rank + 1 - s->nranks) * sizeof *s->rank);
		s->nranks = rank + 1;
	}
	return &s->rank[rank];
}

uint64_t sync_least_clock(const struct sync *s)
{
	uint64_t least = SYNC_NEVER;

	for (size_t i = 0; i < s->nranks; i++)
		if (s->rank[i].active && s->rank[i].clock < least)
			least = s->rank[i].clock;
	return least;
}

bool sync_fences(const struct sync *s, uint32_t rank, uint64_t incarnation)
{
	/* Incarnation 0 means that no worker has held this rank yet. */
	return !incarnation || incarnation == SYNC_NOBODY || rank >= s->nranks ||
	    s->rank[rank].incarnation != incarnation;
}

bool sync_may_push(const struct sync *s, uint64_t step)
{
	return step < s->vote_from && step < s->next_mode_from;
}

bool sync_may_pull(const struct sync *s, uint64_t step)
{
	return sync_may_push(s, step) && s->mode.ops->may_pull(s, step);
}

bool sync_may_fetch(const struct sync *s, uint64_t step)
{
	return sync_may_pull(s, step) && step <= sync_least_clock(s);
}

bool sync_may_prefetch(const struct sync *s, uint64_t step)
{
	return sync_may_push(s, step) && s->mode.ops->may_prefetch(s, step);
}

bool sync_members_fixed(const struct sync *s, uint64_t step)
{
	return sync_may_push(s, step) && step <= sync_completed(s);
}

/* The furthest step that the rank has pushed or completed, plus 1. */
static uint64_t furthest_step(const struct sync_rank *worker)
{
	return worker->pushed_end > worker->clock ? worker->pushed_end : worker->clock;
}

static bool clock_is_plausible(const struct sync *s, uint64_t clock)
{
	return clock <= s->mode.ops->clock_max(s);
}

/* One past the highest step that any rank has pushed or completed, as far as it can be believed.
 * One worker may send an absurd step, on purpose or not, and must not move the others: a rank whose
 * step is absurd beside the others' (core/steps.h) is left out, and so is, in bsp, a CLOCK that is
 * more than SYNC_LEAD_MAX steps beyond `closed`. */
static uint64_t pushed_end(const struct sync *s)
{
	struct steps all = { 0 };
	uint64_t top = 0;

	for (size_t i = 0; i < s->nranks; i++)
		steps_add(&all, furthest_step(&s->rank[i]), s->rank[i].active);
	for (size_t i = 0; i < s->nranks; i++) {
		const struct sync_rank *worker = &s->rank[i];
		uint64_t step = furthest_step(worker);

		if (worker->pushed_end > top &&
		    steps_believe(&all, step, worker->active, worker->pushed_end))
			top = worker->pushed_end;
		if (worker->clock > top &&
		    steps_believe(&all, step, worker->active, worker->clock) &&
		    clock_is_plausible(s, worker->clock))
			top = worker->clock;
	}
	return top;
}

uint64_t sync_first_free(const struct sync *s)
{
	uint64_t pushed = pushed_end(s);

	return pushed > s->answered_end ? pushed : s->answered_end;
}

void sync_note_answer(struct sync *s, uint64_t step)
{
	if (step < s->answered_end || !clock_is_plausible(s, step))
		return;
	if (step <= STEPS_LEAP || !steps_absurd(step, pushed_end(s)))
		s->answered_end = step + 1;
}

unsigned sync_spare(const struct sync_mode *m, size_t n)
{
	if (m->backup == 0 || n == 0)
		return 0;
	return m->backup < n ? m->backup : (unsigned)n - 1;
}

unsigned sync_spare_at(const struct sync *s, uint64_t step)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nranks; i++) {
		const struct sync_rank *worker = &s->rank[i];
		bool empty = worker->stated[step % SYNC_STATED_STEPS].end == step + 1 &&
		    !worker->stated[step % SYNC_STATED_STEPS].examples;

		n += worker->active && !empty;
	}
	return sync_spare(&s->mode, n);
}

/* Have all active ranks completed the step by their CLOCKs, except the spare ones? */
static bool enough_have_completed(const struct sync *s, uint64_t step)
{
	unsigned missing = 0;

	for (size_t i = 0; i < s->nranks; i++)
		missing += s->rank[i].active && s->rank[i].clock <= step;
	return missing <= sync_spare_at(s, step);
}

/* The least clock of the active ranks when the `spare` slowest of them are left out. */
static uint64_t least_clock_without_spare(const struct sync *s)
{
	uint64_t least[SYNC_BACKUP_MAX + 1];
	size_t active = 0, n = 0, spare;

	for (size_t i = 0; i < s->nranks; i++)
		active += s->rank[i].active;
	spare = sync_spare(&s->mode, active);
	for (size_t i = 0; i < s->nranks; i++) {
		uint64_t clock = s->rank[i].clock;
		size_t at = n;

		if (!s->rank[i].active || (n > spare && clock >= least[n - 1]))
			continue;
		if (n <= spare)
			n++;
		else
			at--;
		/* Insert into `least`, which holds the spare + 1 least clocks in ascending
		 * order. */
		for (; at > 0 && least[at - 1] > clock; at--)
			least[at] = least[at - 1];
		least[at] = clock;
	}
	return n ? least[n - 1] : SYNC_NEVER;
}

/* The steps completed with spare ranks. least_clock_without_spare counts every active rank, and
 * ranks without examples may leave fewer spare ones, so the steps that are not closed yet are
 * looked at one by one. What the ranks stated is known of the last SYNC_STATED_STEPS only. */
static uint64_t completed_with_spare(const struct sync *s)
{
	uint64_t end = least_clock_without_spare(s), step = s->closed;

	if (end == SYNC_NEVER || step >= end)
		return end;
	if (end - step > SYNC_STATED_STEPS)
		step = end - SYNC_STATED_STEPS;
	while (step < end && enough_have_completed(s, step))
		step++;
	return step;
}

uint64_t sync_completed(const struct sync *s)
{
	uint64_t least = s->mode.backup ? completed_with_spare(s) : sync_least_clock(s);

	return least == SYNC_NEVER ? pushed_end(s) : least;
}

/* Has a worker held any rank? */
static bool knows_a_worker(const struct sync *s)
{
	for (size_t i = 0; i < s->nranks; i++)
		if (s->rank[i].incarnation)
			return true;
	return false;
}

/* A server that joins a running job learns of changes before it learns of workers. Without a worker
 * all steps would seem done, and it would change from asp to bsp and on to ssp at once. Its
 * partitions would stay before the steps of that bsp, and workers would wait for these steps until
 * their deadline. */
bool sync_may_change_mode(const struct sync *s)
{
	return s->next_mode_from != SYNC_NEVER && knows_a_worker(s) &&
	    s->mode.ops->steps_done(s, s->next_mode_from);
}

/* A rank with complete_from > step was lost or taken over, and may have pushed at this step. */
bool sync_may_lack_pushes(const struct sync *s, uint64_t step, bool skip_clocked)
{
	for (size_t i = 0; i < s->nranks; i++) {
		const struct sync_rank *worker = &s->rank[i];

		if (step < worker->complete_from &&
		    (!skip_clocked || worker->clocked_before <= step))
			return true;
	}
	return false;
}

/* Returns the step, or `at` when the step is absurdly far beyond it. */
static uint64_t cap_absurd_step(uint64_t step, uint64_t at)
{
	return step > at && step - at > STEPS_LEAP ? at : step;
}

void sync_begin_holder(struct sync *s, size_t rank, uint64_t at)
{
	struct sync_rank *worker = sync_at(s, rank);

	worker->pushed_end = cap_absurd_step(worker->pushed_end, at);
	worker->clock = cap_absurd_step(worker->clock, at);
	/* An earlier holder's CLOCK of an open step announced its pushes to the partitions that
	 * were here then, not to partitions that were added since. Suppose that a worker is killed
	 * after its CLOCK has reached a server, and a partition then moves to that server. The
	 * worker's successor does the step again. If the old CLOCK counted, the server would take
	 * the step for complete without the successor's pushes. */
	if (sync_sums_steps(&s->mode) && worker->clock > s->closed)
		worker->clock = s->closed;
	if (worker->clock < at)
		worker->clock = at;
}

void sync_end_holder(struct sync *s, size_t rank, uint64_t complete_from)
{
	struct sync_rank *worker = sync_at(s, rank);

	/* A CLOCK of an absurd step says nothing about the steps before it. */
	if (worker->clocked_end > complete_from && worker->clocked_end - complete_from > STEPS_LEAP)
		worker->clocked_end = s->closed;
	/* Keep the lower value while steps before an earlier change may still be open: CLOCKs of
	 * later holders say nothing about the pushes of the first one. */
	if (worker->complete_from <= s->closed || worker->clocked_before > worker->clocked_end)
		worker->clocked_before = worker->clocked_end;
	worker->complete_from = complete_from;
}

bool sync_clock(struct sync *s, size_t rank, uint64_t step, uint64_t examples)
{
	struct sync_rank *worker = sync_at(s, rank);

	if (step < worker->clock)
		return false;
	worker->clock = worker->clocked_end = step + 1;
	worker->stated[step % SYNC_STATED_STEPS].end = step + 1;
	worker->stated[step % SYNC_STATED_STEPS].examples = examples;
	return true;
}

uint64_t sync_stated_examples(const struct sync *s, size_t rank, uint64_t step)
{
	const struct sync_rank *worker = &s->rank[rank];

	return worker->stated[step % SYNC_STATED_STEPS].end == step + 1
	    ? worker->stated[step % SYNC_STATED_STEPS].examples
	    : 0;
}
