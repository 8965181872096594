/* SPDX-License-Identifier: ISC */
#include "tests/sim/states.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static uint64_t count[NSTATES];

void states_note(enum state s)
{
	count[s]++;
}

/* ---- the wire ---- */

enum kind { COORDINATOR, SERVER, WORKER };

static enum kind kind_of(const struct proc *p)
{
	return strncmp(p->name, "server", 6) == 0 ? SERVER
	    : strncmp(p->name, "worker", 6) == 0  ? WORKER
	                                          : COORDINATOR;
}

void states_note_death(const struct proc *p)
{
	enum kind kind = kind_of(p);
	bool sent = false, due = false;

	for (int pid = 100; proc_find(pid); pid++) {
		const struct proc *other = proc_find(pid);

		if (!other->alive || other == p || kind_of(other) != SERVER)
			continue;
		sent |= net_is_on_its_way(p->pid, pid);
		due |= net_is_on_its_way(pid, p->pid);
	}
	if (sent)
		states_note(kind == SERVER ? STATE_acknowledgement_lost
		        : kind == WORKER   ? STATE_push_lost
		                           : STATE_order_lost);
	if (due)
		states_note(kind == SERVER ? STATE_record_lost
		        : kind == WORKER   ? STATE_receipt_lost
		                           : STATE_answer_lost);
}

/* ---- the coordinator's events ---- */

/* The changes that are under way after the events that have been read. */
struct story {
	bool running;
	bool paused;
	bool copying, copied; /* copied: reported, and not counted yet */
	bool lost;            /* a server, and copies have not been made since */
	unsigned votes;       /* workers that are lost, of which it is not decided */
	unsigned servers;     /* lost since there is such a worker */
};

static void read_loss_of_server(struct story *s)
{
	count[STATE_lost_while_copying] += s->copying;
	count[STATE_lost_while_forming] += !s->running;
	count[STATE_copied_then_layout] += s->copied;
	count[STATE_lost_while_paused] += s->paused;
	count[STATE_two_servers_lost] += s->lost;
	s->copied = false;
	s->lost = true;
	if (!s->votes)
		return;
	s->servers++;
	count[s->servers == 1 ? STATE_server_lost_in_vote : STATE_two_servers_lost_in_vote]++;
}

static void read_recovery(struct story *s)
{
	count[STATE_recovered_while_copying] += s->copying;
	count[STATE_recovered_in_vote] += s->votes != 0;
	count[STATE_recovered_while_paused] += s->paused;
	count[STATE_recovered_while_forming] += !s->running;
	count[STATE_copied_then_layout] += s->copied;
	s->copied = false;
}

/* Events that are a state by themselves. */
static void count_event(const char *event)
{
	static const struct {
		const char *event;
		enum state state;
	} known[] = { { "unreachable", STATE_unreachable }, { "cut_off", STATE_cut_off },
		{ "worker_back", STATE_worker_back }, { "server_left", STATE_server_left },
		{ "checkpoint_failed", STATE_checkpoint_failed }, { "data_lost", STATE_data_lost },
		{ "silent", STATE_silent }, { "checkpoint_skipped", STATE_checkpoint_skipped },
		{ "relay_lost", STATE_relay_lost } };

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		count[known[i].state] += strcmp(event, known[i].event) == 0;
}

static void read_event(struct story *s, const char *event)
{
	if (strcmp(event, "running") == 0) {
		s->running = true;
	} else if (strcmp(event, "copying") == 0) {
		count[STATE_copied_then_layout] += s->copied;
		s->copying = true;
		s->copied = false;
	} else if (strcmp(event, "copied") == 0) {
		s->copied = true;
	} else if (strcmp(event, "layout") == 0) {
		s->lost &= !s->copied;
		s->copying = s->copied = false;
	} else if (strcmp(event, "server_lost") == 0) {
		read_loss_of_server(s);
	} else if (strcmp(event, "worker_lost") == 0) {
		count[STATE_lost_while_forming] += !s->running;
		count[STATE_lost_while_paused] += s->paused;
		s->votes += s->running;
	} else if (strcmp(event, "worker_joined") == 0) {
		count[STATE_joined_in_vote] += s->votes != 0;
	} else if (strcmp(event, "members") == 0) {
		s->votes -= s->votes != 0;
		s->servers = s->votes ? s->servers : 0;
	} else if (strcmp(event, "recovered") == 0) {
		read_recovery(s);
	} else if (strcmp(event, "paused") == 0) {
		s->paused = true;
	} else if (strcmp(event, "resumed") == 0) {
		s->paused = false;
	} else if (strcmp(event, "server_joined") == 0) {
		count[STATE_joined_while_copying] += s->copying;
	} else if (strcmp(event, "table") == 0) {
		count[STATE_tables_while_copying] += s->copying;
	} else if (strcmp(event, "checkpoint") == 0) {
		count[STATE_checkpoint]++;
		count[STATE_checkpoint_while_copying] += s->copying;
		count[STATE_checkpoint_in_vote] += s->votes != 0;
	} else {
		count_event(event);
	}
}

void states_read_events(const char *path)
{
	struct story story = { 0 };
	size_t n = 0;
	const char *at = disk_get(path, &n), *end = at + n, *line;

	for (; at && at < end && (line = memchr(at, '\n', (size_t)(end - at))); at = line + 1) {
		json_t *o = json_loadb(at, (size_t)(line - at), 0, NULL);
		const char *event = json_string_value(json_object_get(o, "event"));

		if (event)
			read_event(&story, event);
		json_decref(o);
	}
}

/* ---- the report ---- */

void states_print(void)
{
	static const char *const text[] = {
#define STATE(name, text) text,
#include "tests/sim/states.def"
#undef STATE
	};

	for (size_t i = 0; i < NSTATES; i++)
		if (count[i])
			printf("%8llu  %s\n", (unsigned long long)count[i], text[i]);
	for (size_t i = 0; i < NSTATES; i++)
		if (!count[i])
			printf("   never  %s\n", text[i]);
}
