/* SPDX-License-Identifier: ISC */
#include "tests/sim/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/sim.h"

#define SERVERS_MAX  64
#define REQUESTS_MAX 256

struct server {
	struct proc *proc; /* NULL: free */
	int pid;
	struct waitq wait;
	bool nudged;
	uint64_t opened; /* in which order */
};

struct pending {
	struct sim_request request;
	unsigned server;
	bool used, taken;
	void (*fn)(void *ctx, int status, const char *text);
	void *ctx;
};

static struct server server[SERVERS_MAX];
static struct pending pending[REQUESTS_MAX];
static uint64_t next_id, opened;
static void (*on_open)(const struct proc *p);

void control_on_open(void (*fn)(const struct proc *p))
{
	on_open = fn;
}

unsigned sim_control_open(void)
{
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		if (!server[i].proc || !proc_find(server[i].pid) || !server[i].proc->alive) {
			server[i] = (struct server){ .proc = proc_current,
				.pid = proc_current->pid,
				.opened = ++opened };
			if (on_open)
				on_open(proc_current);
			return i;
		}
	sim_panic("more than %d control servers", SERVERS_MAX);
}

static void finish(struct pending *p, int status, const char *text)
{
	void (*fn)(void *, int, const char *) = p->fn;
	void *ctx = p->ctx;

	free(p->request.body);
	p->used = false;
	if (fn)
		fn(ctx, status, text);
}

void sim_control_close(unsigned s)
{
	for (size_t i = 0; i < REQUESTS_MAX; i++)
		if (pending[i].used && pending[i].server == s)
			finish(&pending[i], 0, "");
	server[s].proc = NULL;
}

const struct sim_request *sim_control_take(unsigned s, int64_t until)
{
	int64_t end = until == INT64_MAX ? until : until - calls_clock_offset(CLOCK_MONOTONIC);

	for (;;) {
		for (size_t i = 0; i < REQUESTS_MAX; i++)
			if (pending[i].used && !pending[i].taken && pending[i].server == s) {
				pending[i].taken = true;
				return &pending[i].request;
			}
		if (server[s].nudged || sim_now >= end) {
			server[s].nudged = false;
			return NULL;
		}
		fiber_wait_one(&server[s].wait, end);
	}
}

void sim_control_nudge(unsigned s)
{
	server[s].nudged = true;
	waitq_wake_all(&server[s].wait);
}

void sim_control_answer(uint64_t id, int status, const char *text)
{
	for (size_t i = 0; i < REQUESTS_MAX; i++)
		if (pending[i].used && pending[i].request.id == id) {
			finish(&pending[i], status, text);
			return;
		}
}

/* A coordinator that has been overtaken may not know it yet. */
static unsigned find_server(unsigned slot)
{
	unsigned best = SERVERS_MAX;

	for (unsigned i = 0; i < SERVERS_MAX; i++) {
		const struct server *s = &server[i];

		if (s->proc && s->proc->alive &&
		    (s->proc->slot == slot ||
		        (slot == COORDINATOR_SLOT && s->proc->slot == STANDBY_SLOT)) &&
		    (best == SERVERS_MAX || s->opened > server[best].opened))
			best = i;
	}
	return best;
}

struct proc *control_leader(void)
{
	unsigned s = find_server(COORDINATOR_SLOT);

	return s < SERVERS_MAX ? server[s].proc : NULL;
}

unsigned control_coordinators(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SERVERS_MAX; i++)
		n += server[i].proc && server[i].proc->alive &&
		    (server[i].proc->slot == COORDINATOR_SLOT ||
		        server[i].proc->slot == STANDBY_SLOT);
	return n;
}

void control_send(unsigned slot, const char *method, const char *target, const char *body,
    void (*fn)(void *ctx, int status, const char *text), void *ctx)
{
	unsigned s = find_server(slot);

	for (size_t i = 0; s < SERVERS_MAX && i < REQUESTS_MAX; i++) {
		struct pending *p = &pending[i];

		if (p->used)
			continue;
		memset(p, 0, sizeof *p);
		p->request.id = next_id++;
		snprintf(p->request.method, sizeof p->request.method, "%s", method);
		snprintf(p->request.target, sizeof p->request.target, "%s", target);
		p->request.body = body ? strdup(body) : NULL;
		p->server = s;
		p->used = true;
		p->fn = fn;
		p->ctx = ctx;
		waitq_wake_all(&server[s].wait);
		return;
	}
	if (fn)
		fn(ctx, 0, "");
}

/* Requests to a process that has died are answered with status 0. */
void control_died(const struct proc *p)
{
	for (unsigned s = 0; s < SERVERS_MAX; s++)
		if (server[s].proc == p)
			sim_control_close(s);
}

void control_reset(void)
{
	for (size_t i = 0; i < REQUESTS_MAX; i++)
		free(pending[i].used ? pending[i].request.body : NULL);
	memset(server, 0, sizeof server);
	memset(pending, 0, sizeof pending);
	next_id = 1;
	opened = 0;
	on_open = NULL;
}
