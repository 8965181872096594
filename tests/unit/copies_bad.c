/* Copies that are none: cut, too long, of another shape. */
#include "copies_fixture.h"

/* What comes from another server is checked as what comes from anybody. */
static void malformed(void)
{
	struct net *x = net_open("bsp", false, "sgd", "01", 1);
	uint8_t bytes[64] = { 0 };
	uint64_t steps, version;
	unsigned taken = 0;

	for (unsigned kind = COPY_SUM; kind <= COPY_STATE; kind++)
		for (size_t len = 0; len < 24; len++) {
			struct copy c = { .kind = (enum copy_kind)kind, .table = W };

			taken += shard_copy(x->node[1].s, &c, bytes, len, &steps, &version) != SHARD_BAD;
		}
	ok(taken == 0, "a copy shorter than its head is malformed");
	memset(bytes, 0xff, sizeof bytes);
	for (unsigned kind = COPY_SUM; kind <= COPY_STATE; kind++) {
		struct copy c = { .kind = (enum copy_kind)kind, .table = W, .step = 3 };

		/* A state for one that has its copy is only a repetition. */
		taken += shard_copy(x->node[1].s, &c, bytes, 56, &steps, &version) == SHARD_OK && kind != COPY_STATE;
	}
	ok(taken == 0, "and so is one with figures beyond its end");
	net_close(x);
}

int main(void)
{
	malformed();
	return tap_done();
}
