/* SPDX-License-Identifier: ISC */
#include "conf/conf_rule.h"
#include "server/server_role.h"

/* The bounds of a server's memory for sessions: P6 in ps-consistency(7). */

/* One session for each worker and server, and one for a tool; the coordinator has a second one of
 * each worker and server, for views and heartbeats. */
uint64_t server_count_sessions(bool coordinator, uint64_t workers, uint64_t servers)
{
	return (workers + servers) * (coordinator ? 2 : 1) + 1;
}

void server_know_sessions(struct server *s, const struct conf *conf)
{
	atomic_store(&s->limits.takes_row_ids, strcmp(conf->row_ids, "raw") != 0);
	atomic_store(&s->limits.shares, conf_shares_memory(conf));
	io_threads_spin(s, conf->spin);
}

void server_know_tables(struct server *s, const struct layout *l)
{
	uint64_t asked = SESSION_ASKED, parts = 0, answer = atomic_load(&s->limits.answer);
	bool sparse = atomic_load(&s->limits.sparse);

	for (size_t i = 0; i < l->ntables; i++) {
		if (l->table[i].dropped)
			continue;
		sparse |= l->table[i].sparse;
		if (l->table[i].sparse || l->table[i].whole)
			answer = RECORD_MAX;
		asked += SESSION_ASKED_TABLE + (uint64_t)l->table[i].nparts * SESSION_ASKED_PART;
		parts += s->cfg.role->parts_here(s, &l->table[i]);
	}
	atomic_store(&s->limits.parts, parts);
	/* Pulls of sparse tables carry row ids, so they may take the whole credit. */
	atomic_store(&s->limits.asked, sparse || asked > SESSION_CREDIT ? SESSION_CREDIT : asked);
	atomic_store(&s->limits.sparse, sparse);
	atomic_store(&s->limits.answer, answer > PART_ELEMENTS * 4 ? answer : PART_ELEMENTS * 4);
}

uint64_t server_session_memory(struct server *s)
{
	return (atomic_load(&s->limits.takes_row_ids) ? SESSION_MEMORY_ROW_IDS : SESSION_MEMORY) +
	    (atomic_load(&s->limits.shares) ? SESSION_SHARED : 0);
}

/* The sum of: one record being received; answers that wait to be written, twice because of the
 * spare buffers of a conn; queued pulls; with sparse tables a staged push; cached row ids; shared
 * memory; pending acknowledgements, twice because their array doubles as it grows, with their
 * entries. */
uint64_t server_session_bound(struct server *s, uint64_t sessions, uint64_t parts)
{
	bool sparse = atomic_load(&s->limits.sparse);
	uint64_t answers = 2 * (uint64_t)session_backlog_limit(s, sessions);
	uint64_t asked = atomic_load(&s->limits.asked) + (sparse ? SESSION_CREDIT : 0);
	uint64_t ids = sparse && atomic_load(&s->limits.takes_row_ids)
	    ? ROW_IDS_CACHE_BYTES + ROW_IDS_MAX * 8
	    : 0;

	return RECORD_MAX + answers + asked + ids +
	    (atomic_load(&s->limits.shares) ? SESSION_SHARED : 0) +
	    session_pending_limit(parts) * 2 * (sizeof(struct pending_ack) + PAYLOAD_RECEIPT_BYTES);
}
