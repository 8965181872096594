/* SPDX-License-Identifier: ISC */
#include "sync/sync.h"

#include "core/mem.h"
#include "core/num.h"
#include "core/steps.h"

static const struct {
	const char *name;
	enum sync_kind kind;
} modes[] = {
#define MODE(name, number, help) { #name, SYNC_##name },
#include "sync/sync.def"
#undef MODE
};

bool sync_same(const struct sync_mode *a, const struct sync_mode *b)
{
	return a->kind == b->kind && a->staleness == b->staleness && a->backup == b->backup;
}

enum err_code sync_parse(const char *text, struct sync_mode *out, struct err *e)
{
	*out = (struct sync_mode){ .kind = SYNC_bsp };
	if (strncmp(text, "ssp:", 4) == 0) {
		out->kind = SYNC_ssp;
		if (num_uint(text + 4, 1000000, &out->staleness))
			return ERR_OK;
		return err_set(e, ERR_CONFIG, "must be ssp:S with S from 0 to 1000000, got \"%s\"",
		    text);
	}
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (modes[i].kind != SYNC_ssp && strcmp(text, modes[i].name) == 0) {
			out->kind = modes[i].kind;
			return ERR_OK;
		}
	return err_set(e, ERR_CONFIG, "must be bsp, ssp:S or asp, got \"%s\"", text);
}

void sync_format(const struct sync_mode *m, char out[static 32])
{
	if (m->kind == SYNC_ssp)
		snprintf(out, 32, "ssp:%llu", (unsigned long long)m->staleness);
	else
		snprintf(out, 32, "%s", m->kind == SYNC_asp ? "asp" : "bsp");
}

void sync_init(struct sync *s, struct sync_mode mode)
{
	*s = (struct sync){ .mode = mode, .hold = SYNC_NEVER, .turn = SYNC_NEVER };
}

void sync_release(struct sync *s)
{
	free(s->slot);
	*s = (struct sync){ 0 };
}

struct sync_slot *sync_at(struct sync *s, size_t slot)
{
	if (slot >= s->nslots) {
		s->slot = mem_regrow(s->slot, slot + 1, sizeof *s->slot);
		memset(s->slot + s->nslots, 0, (slot + 1 - s->nslots) * sizeof *s->slot);
		s->nslots = slot + 1;
	}
	return &s->slot[slot];
}

uint64_t sync_least_clock(const struct sync *s)
{
	uint64_t floor = SYNC_NEVER;

	for (size_t i = 0; i < s->nslots; i++)
		if (s->slot[i].active && s->slot[i].clock < floor)
			floor = s->slot[i].clock;
	return floor;
}

/* Must the step wait, because a change at it is under vote or another mode begins there? */
static bool step_is_held(const struct sync *s, uint64_t step)
{
	return step >= s->hold || step >= s->turn;
}

bool sync_may_pull(const struct sync *s, uint64_t step)
{
	uint64_t floor;

	if (step_is_held(s, step))
		return false;
	if (s->mode.kind == SYNC_asp)
		return true;
	if (s->mode.kind == SYNC_bsp)
		return step <= s->closed;
	floor = sync_least_clock(s);
	return step <= s->mode.staleness || step - s->mode.staleness <= floor;
}

bool sync_may_fetch(const struct sync *s, uint64_t step)
{
	return sync_may_pull(s, step) && step <= sync_least_clock(s);
}

bool sync_may_prefetch(const struct sync *s, uint64_t step)
{
	if (s->mode.kind != SYNC_bsp)
		return sync_may_pull(s, step);
	/* One step ahead of `closed` at most: an answer that nobody waits for must not settle who
	 * takes part in a step. */
	return !step_is_held(s, step) && step <= s->closed + 1;
}

bool sync_members_settled(const struct sync *s, uint64_t step)
{
	return !step_is_held(s, step) && step <= sync_completed(s);
}

bool sync_may_push(const struct sync *s, uint64_t step)
{
	return !step_is_held(s, step);
}

/* The furthest step that the slot has pushed or completed, plus 1. */
static uint64_t furthest_step(const struct sync_slot *x)
{
	return x->last > x->clock ? x->last : x->clock;
}

/* An honest slot cannot be more than SYNC_LEAD_MAX steps beyond the closed ones in bsp. */
static bool clock_is_plausible(const struct sync *s, uint64_t clock)
{
	return s->mode.kind != SYNC_bsp || clock <= s->closed || clock - s->closed <= SYNC_LEAD_MAX;
}

uint64_t sync_pushed_end(const struct sync *s)
{
	struct steps all = { 0 };
	uint64_t top = 0;

	for (size_t i = 0; i < s->nslots; i++)
		steps_add(&all, furthest_step(&s->slot[i]), s->slot[i].active);
	for (size_t i = 0; i < s->nslots; i++) {
		const struct sync_slot *x = &s->slot[i];
		uint64_t step = furthest_step(x);

		if (x->last > top && steps_believe(&all, step, x->active, x->last))
			top = x->last;
		if (x->clock > top && steps_believe(&all, step, x->active, x->clock) &&
		    clock_is_plausible(s, x->clock))
			top = x->clock;
	}
	return top;
}

uint64_t sync_frontier(const struct sync *s)
{
	uint64_t pushed = sync_pushed_end(s);

	return pushed > s->answered ? pushed : s->answered;
}

void sync_note_answer(struct sync *s, uint64_t step)
{
	if (step < s->answered || !clock_is_plausible(s, step))
		return;
	if (step <= STEPS_LEAP || !steps_absurd(step, sync_pushed_end(s)))
		s->answered = step + 1;
}

unsigned sync_spare(const struct sync *s, size_t n)
{
	if (s->mode.backup == 0 || n == 0)
		return 0;
	return s->mode.backup < n ? s->mode.backup : (unsigned)n - 1;
}

/* The least clock of the active slots when the `spare` slowest of them are left out. */
static uint64_t floor_without_spare(const struct sync *s)
{
	uint64_t least[SYNC_BACKUP_MAX + 1];
	size_t active = 0, n = 0, spare;

	for (size_t i = 0; i < s->nslots; i++)
		active += s->slot[i].active;
	spare = sync_spare(s, active);
	for (size_t i = 0; i < s->nslots; i++) {
		uint64_t clock = s->slot[i].clock;
		size_t at = n;

		if (!s->slot[i].active || (n > spare && clock >= least[n - 1]))
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

uint64_t sync_completed(const struct sync *s)
{
	uint64_t floor = s->mode.backup ? floor_without_spare(s) : sync_least_clock(s);

	return floor == SYNC_NEVER ? sync_pushed_end(s) : floor;
}

bool sync_may_close(const struct sync *s)
{
	return s->closed < sync_completed(s);
}

bool sync_may_change_mode(const struct sync *s)
{
	uint64_t floor = sync_least_clock(s), want = s->turn;

	if (want == SYNC_NEVER || s->mode.kind != SYNC_bsp)
		return want != SYNC_NEVER && floor >= want;
	/* With no active slot left, nobody can push the steps between the last pushed one and
	 * `turn`. */
	if (floor == SYNC_NEVER && sync_completed(s) < want)
		want = sync_completed(s);
	return s->closed >= want;
}

/* A slot with until > step was lost or taken over, and may have pushed at this step. For a server
 * that has its CLOCK of the step (said > step) the announcements tell which pushes are to come, so
 * for `told` such a slot does not count. */
bool sync_may_lack_pushes(const struct sync *s, uint64_t step, bool told)
{
	for (size_t i = 0; i < s->nslots; i++) {
		const struct sync_slot *x = &s->slot[i];

		if (step < x->until && (!told || x->said <= step))
			return true;
	}
	return false;
}

/* Returns the step, or `at` when the step is absurdly far beyond it. */
static uint64_t cap_absurd_step(uint64_t step, uint64_t at)
{
	return step > at && step - at > STEPS_LEAP ? at : step;
}

void sync_begin_holder(struct sync *s, size_t slot, uint64_t at)
{
	struct sync_slot *p = sync_at(s, slot);

	p->last = cap_absurd_step(p->last, at);
	p->clock = cap_absurd_step(p->clock, at);
	if (p->clock < at)
		p->clock = at;
}

void sync_end_holder(struct sync *s, size_t slot, uint64_t until)
{
	struct sync_slot *p = sync_at(s, slot);

	/* A CLOCK of an absurd step says nothing about the steps before it. */
	if (p->told > until && p->told - until > STEPS_LEAP)
		p->told = s->closed;
	/* Keep the lower `said` while steps before an earlier change may still be open: CLOCKs of
	 * later holders say nothing about the pushes of the first one. */
	if (p->until <= s->closed || p->said > p->told)
		p->said = p->told;
	p->until = until;
}

bool sync_clock(struct sync *s, size_t slot, uint64_t step, uint64_t examples)
{
	struct sync_slot *p = sync_at(s, slot);

	if (step < p->clock)
		return false;
	p->clock = p->told = step + 1;
	p->stated[step % SYNC_STATED_STEPS].end = step + 1;
	p->stated[step % SYNC_STATED_STEPS].examples = examples;
	return true;
}

uint64_t sync_stated_examples(const struct sync *s, size_t slot, uint64_t step)
{
	const struct sync_slot *p = &s->slot[slot];

	return p->stated[step % SYNC_STATED_STEPS].end == step + 1
	    ? p->stated[step % SYNC_STATED_STEPS].examples
	    : 0;
}
