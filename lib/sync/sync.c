#include "sync/sync.h"

#include "base/mem.h"
#include "base/num.h"

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
		return err_set(e, ERR_CONFIG, "must be ssp:S with S from 0 to 1000000, got \"%s\"", text);
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

uint64_t sync_floor(const struct sync *s)
{
	uint64_t floor = SYNC_NEVER;

	for (size_t i = 0; i < s->nslots; i++)
		if (s->slot[i].active && s->slot[i].clock < floor)
			floor = s->slot[i].clock;
	return floor;
}

/* A vote is under way, or the mode turns. */
static bool held(const struct sync *s, uint64_t step)
{
	return step >= s->hold || step >= s->turn;
}

bool sync_may_pull(const struct sync *s, uint64_t step)
{
	uint64_t floor;

	if (held(s, step))
		return false;
	if (s->mode.kind == SYNC_asp)
		return true;
	if (s->mode.kind == SYNC_bsp)
		return step <= s->closed;
	floor = sync_floor(s);
	return step <= s->mode.staleness || step - s->mode.staleness <= floor;
}

bool sync_may_ask(const struct sync *s, uint64_t step)
{
	return sync_may_pull(s, step) && step <= sync_floor(s);
}

bool sync_may_prefetch(const struct sync *s, uint64_t step)
{
	if (s->mode.kind != SYNC_bsp)
		return sync_may_pull(s, step);
	/* No further ahead: who takes part there is not settled by an answer that none waits for. */
	return !held(s, step) && step <= s->closed + 1;
}

bool sync_may_tell(const struct sync *s, uint64_t step)
{
	return !held(s, step) && step <= sync_clocked(s);
}

bool sync_may_push(const struct sync *s, uint64_t step)
{
	return !held(s, step);
}

uint64_t sync_pushed(const struct sync *s)
{
	uint64_t top = 0;

	for (size_t i = 0; i < s->nslots; i++) {
		if (s->slot[i].last > top)
			top = s->slot[i].last;
		if (s->slot[i].clock > top)
			top = s->slot[i].clock;
	}
	return top;
}

uint64_t sync_frontier(const struct sync *s)
{
	uint64_t pushed = sync_pushed(s);

	return pushed > s->answered ? pushed : s->answered;
}

unsigned sync_spare(const struct sync *s, size_t n)
{
	if (s->mode.backup == 0 || n == 0)
		return 0;
	return s->mode.backup < n ? s->mode.backup : (unsigned)n - 1;
}

/* The active slots' clocks: the one that `spare` others are not above. */
static uint64_t floor_without(const struct sync *s)
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
		/* In ascending order, the `spare` + 1 least. */
		for (; at > 0 && least[at - 1] > clock; at--)
			least[at] = least[at - 1];
		least[at] = clock;
	}
	return n ? least[n - 1] : SYNC_NEVER;
}

uint64_t sync_clocked(const struct sync *s)
{
	uint64_t floor = s->mode.backup ? floor_without(s) : sync_floor(s);

	return floor == SYNC_NEVER ? sync_pushed(s) : floor;
}

bool sync_may_close(const struct sync *s)
{
	return s->closed < sync_clocked(s);
}

bool sync_may_turn(const struct sync *s)
{
	uint64_t floor = sync_floor(s), want = s->turn;

	if (want == SYNC_NEVER || s->mode.kind != SYNC_bsp)
		return want != SYNC_NEVER && floor >= want;
	/* Nobody is left who could bring it as far. */
	if (floor == SYNC_NEVER && sync_clocked(s) < want)
		want = sync_clocked(s);
	return s->closed >= want;
}

bool sync_torn(const struct sync *s, uint64_t step, bool told)
{
	for (size_t i = 0; i < s->nslots; i++) {
		const struct sync_slot *x = &s->slot[i];

		if (step < x->until && (!told || x->said <= step))
			return true;
	}
	return false;
}

void sync_until(struct sync *s, size_t slot, uint64_t until)
{
	struct sync_slot *p = sync_at(s, slot);

	/* Steps of before an earlier change may be open yet: what was told since says
	 * nothing of them. */
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
	p->stated[step % SYNC_STATED].end = step + 1;
	p->stated[step % SYNC_STATED].examples = examples;
	return true;
}

uint64_t sync_stated(const struct sync *s, size_t slot, uint64_t step)
{
	const struct sync_slot *p = &s->slot[slot];

	return p->stated[step % SYNC_STATED].end == step + 1 ? p->stated[step % SYNC_STATED].examples : 0;
}
