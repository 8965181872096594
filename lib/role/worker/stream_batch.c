/* SPDX-License-Identifier: ISC */
#include "worker/stream_batch.h"

#include "msg/message.h"

/* The greatest span that the coordinator accepts. A wider gap takes several batches without events. */
#define SPAN_MOST ((uint64_t)BATCH_MOST)

static size_t partition_of_range(const struct leased_range *r)
{
	return (size_t)r->units.begin;
}

int64_t stream_batch_place(const struct data_log *l, const struct leased_range *r)
{
	if (r->place < 0)
		return DATA_LOG_BEGIN;
	return data_log_is_numbered(l) ? r->place + (int64_t)(r->used - r->placed) : r->place;
}

uint64_t stream_batch_skipped(const struct data_log *l, const struct leased_range *r)
{
	return data_log_is_numbered(l) ? 0 : r->used - r->placed;
}

void stream_batch_note_place(const struct data_log *l, struct leased_range *r)
{
	int64_t place = data_log_is_numbered(l) && r->place >= 0
	    ? stream_batch_place(l, r)
	    : data_log_place(l, partition_of_range(r));

	if (place < 0)
		return;
	r->place = place;
	r->placed = r->used;
}

uint64_t stream_batch_need(const struct data_log *l, const struct leased_range *r, uint64_t batch)
{
	uint64_t repeated, more;

	if (!leased_range_repeats(r))
		return batch;
	repeated = leased_range_repeated_batch(r);
	/* A wide span has few events, which are asked for little by little. */
	more = data_log_ready(l, partition_of_range(r)) + batch;
	return data_log_is_numbered(l) && more < repeated ? more : repeated;
}

/* The events of the next `span` numbers, if all of them have arrived. */
static struct stream_batch take_span(const struct data_log *l, const struct leased_range *r,
    uint64_t span)
{
	size_t partition = partition_of_range(r);
	int64_t end;

	if (!data_log_is_numbered(l))
		return data_log_ready(l, partition) >= span ? (struct stream_batch){ span, span }
		                                            : (struct stream_batch){ 0 };
	end = stream_batch_place(l, r) + (int64_t)span;
	if (r->place < 0 || data_log_arrived(l, partition) < end)
		return (struct stream_batch){ 0 };
	return (struct stream_batch){ data_log_ready_before(l, partition, end), span };
}

/* The first n ready events. */
static struct stream_batch take_events(const struct data_log *l, const struct leased_range *r,
    size_t n)
{
	struct stream_batch b = { n, n };

	if (!data_log_is_numbered(l))
		return b;
	if (!n || r->place < 0)
		return (struct stream_batch){ 0 };
	b.span = (uint64_t)(data_log_place_of(l, partition_of_range(r), n - 1) + 1 -
	    stream_batch_place(l, r));
	if (b.span > SPAN_MOST)
		b = take_span(l, r, SPAN_MOST);
	return b;
}

/* The batch that the present attempt goes on with. No batch: it has too many or too few events. */
static struct stream_batch continue_attempt(const struct data_log *l, const struct leased_range *r,
    uint64_t batch, uint64_t step)
{
	const struct attempt *own = &r->own;
	struct stream_batch b;

	if (!own->batch || step != own->step + (r->used - own->from) / own->batch)
		return (struct stream_batch){ 0 };
	b = take_span(l, r, own->batch);
	return b.events <= batch && b.events >= batch - batch / 4 ? b : (struct stream_batch){ 0 };
}

struct stream_batch stream_batch_whole(const struct data_log *l, const struct leased_range *r,
    uint64_t batch, uint64_t step)
{
	struct stream_batch b;

	if (leased_range_repeats(r))
		return take_span(l, r, leased_range_repeated_batch(r));
	if (data_log_ready(l, partition_of_range(r)) < batch)
		return (struct stream_batch){ 0 };
	if (!data_log_is_numbered(l))
		return take_span(l, r, batch);
	b = continue_attempt(l, r, batch, step);
	return b.span ? b : take_events(l, r, (size_t)batch);
}

struct stream_batch stream_batch_rest(const struct data_log *l, const struct leased_range *r)
{
	return take_events(l, r, data_log_ready(l, partition_of_range(r)));
}
