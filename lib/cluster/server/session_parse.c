/* SPDX-License-Identifier: ISC */
#include "server/session_parse.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/lock.h"
#include "core/mem.h"
#include "server/server_state.h"

/* A message. The I/O thread of its session owns it before and after the parser does, which uses
 * only text, len, msg and e. */
struct parsing {
	struct parsing *next;
	struct server_session *p; /* NULL: the session has ended */
	struct io_thread *io_thread;
	bool done;
	size_t len;
	json_t *msg;
	struct err e;
	char text[];
};

static void free_parsing(struct parsing *x)
{
	json_decref(x->msg);
	free(x);
}

/* On the session's I/O thread. */
static void finish_parsing(void *ctx)
{
	struct parsing *x = ctx;

	x->done = true;
	if (x->p)
		session_retry(x->p);
	else
		free_parsing(x);
}

static void *run_parser(void *ctx)
{
	struct server_parser *a = ctx;

	mutex_lock(&a->lock);
	for (;;) {
		struct parsing *x = a->first;

		if (!x && a->stop)
			break;
		if (!x) {
			mutex_wait(&a->woken, &a->lock);
			continue;
		}
		a->first = x->next;
		if (!a->first)
			a->last = &a->first;
		mutex_unlock(&a->lock);
		x->msg = json_parse_to_depth(x->text, x->len, MESSAGE_MAX, JSON_PEER_DEPTH, &x->e);
		loop_post(x->io_thread->loop, finish_parsing, x);
		mutex_lock(&a->lock);
	}
	mutex_unlock(&a->lock);
	return NULL;
}

bool session_parse_begin(struct server_session *p, const void *text, size_t len)
{
	struct server_parser *a = &p->io_thread->server->parser;
	struct parsing *x = mem_alloc(sizeof *x + len);

	x->p = p;
	x->io_thread = p->io_thread;
	x->len = len;
	memcpy(x->text, text, len);
	mutex_lock(&a->lock);
	if (!a->runs)
		a->runs = !a->stop && pthread_create(&a->thread, NULL, run_parser, a) == 0;
	if (!a->runs) {
		mutex_unlock(&a->lock);
		free_parsing(x);
		return false;
	}
	*a->last = x;
	a->last = &x->next;
	pthread_cond_signal(&a->woken);
	mutex_unlock(&a->lock);
	p->control.parsing = x;
	return true;
}

bool session_parse_is_busy(const struct server_session *p)
{
	return p->control.parsing && !p->control.parsing->done;
}

bool session_parse_take(struct server_session *p, json_t **msg, struct err *e)
{
	struct parsing *x = p->control.parsing;

	if (!x || !x->done)
		return false;
	*msg = x->msg;
	x->msg = NULL;
	*e = x->e;
	free_parsing(x);
	p->control.parsing = NULL;
	return true;
}

void session_parse_drop(struct server_session *p)
{
	struct parsing *x = p->control.parsing;

	if (!x)
		return;
	x->p = NULL;
	if (x->done)
		free_parsing(x);
	p->control.parsing = NULL;
}

void session_parse_stop(struct server *s)
{
	struct server_parser *a = &s->parser;
	bool runs;

	mutex_lock(&a->lock);
	a->stop = true;
	runs = a->runs;
	pthread_cond_signal(&a->woken);
	mutex_unlock(&a->lock);
	if (runs)
		pthread_join(a->thread, NULL);
}
