/* SPDX-License-Identifier: ISC */
#include "session/agent_state.h"

#include <errno.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/answer.h"

/* How often a waiting call checks for an interrupt. */
#define CANCEL_PACE (50 * NSEC_PER_MSEC)

void agent_wake(struct agent *a)
{
	uint64_t one = 1;

	if (write(a->wake, &one, sizeof one) < 0 && errno != EAGAIN)
		abort();
}

/* ---- on the agent's thread ---- */

void agent_send_messages(struct agent *a)
{
	struct ask **p, *ask;

	thread_owner_assert(&a->owner, "an agent");
	mutex_lock(&a->lock);
	for (p = &a->asks; (ask = *p);) {
		if (!ask->sent)
			agent_send(a, ask->text, ask->seq);
		ask->sent = true;
		if (!ask->tell || ask->name[0]) {
			p = &ask->next;
			continue;
		}
		*p = ask->next;
		free(ask->text);
		free(ask);
	}
	mutex_unlock(&a->lock);
}

void agent_deliver_answer(struct agent *a, uint64_t seq, json_t *answer)
{
	struct err why = { 0 };
	bool refused = answer_is_refusal(answer, &why);

	thread_owner_assert(&a->owner, "an agent");
	mutex_lock(&a->lock);
	for (struct ask *ask = a->asks; ask; ask = ask->next) {
		/* A tell has no reader for an answer. */
		if (ask->seq != seq || ask->done || ask->tell)
			continue;
		ask->done = true;
		if (refused) {
			ask->why = why;
		} else {
			ask->answer = answer;
			answer = NULL;
		}
		break;
	}
	json_decref(answer);
	pthread_cond_broadcast(&a->answered);
	mutex_unlock(&a->lock);
}

void agent_requeue_messages(struct agent *a)
{
	thread_owner_assert(&a->owner, "an agent");
	mutex_lock(&a->lock);
	for (struct ask *ask = a->asks; ask; ask = ask->next)
		ask->sent = false;
	mutex_unlock(&a->lock);
}

/* ---- on any thread ---- */

/* Append a message and number it. Called with the lock held. */
static void enqueue_message(struct agent *a, struct ask *ask)
{
	struct ask **p = &a->asks;

	mutex_assert_held(&a->lock);
	while (*p)
		p = &(*p)->next;
	ask->next = NULL;
	*p = ask;
	ask->seq = a->next_seq++;
}

void agent_set_interrupt(struct agent *a, const struct interrupt *i)
{
	atomic_store(&a->interrupt, i);
}

bool agent_is_up(struct agent *a)
{
	return atomic_load(&a->up);
}

void agent_tell(struct agent *a, json_t *msg)
{
	struct ask *ask = mem_alloc(sizeof *ask);

	ask->text = json_text(msg);
	json_decref(msg);
	ask->tell = true;
	mutex_lock(&a->lock);
	enqueue_message(a, ask);
	mutex_unlock(&a->lock);
	agent_wake(a);
}

void agent_tell_lasting(struct agent *a, const char *name, json_t *msg)
{
	char *text = json_text(msg);
	struct ask *ask;

	json_decref(msg);
	mutex_lock(&a->lock);
	for (ask = a->asks; ask && strcmp(ask->name, name) != 0; ask = ask->next)
		;
	if (!ask) {
		ask = mem_alloc(sizeof *ask);
		ask->tell = true;
		snprintf(ask->name, sizeof ask->name, "%s", name);
		enqueue_message(a, ask);
	}
	free(ask->text);
	ask->text = text;
	ask->sent = false;
	mutex_unlock(&a->lock);
	agent_wake(a);
}

/* Has the interrupt come? Called with the lock held, and releases it for the check. */
static bool is_call_interrupted(struct agent *a)
{
	bool came;

	mutex_assert_held(&a->lock);
	mutex_unlock(&a->lock);
	came = interrupt_came(atomic_load(&a->interrupt));
	mutex_lock(&a->lock);
	return came;
}

/* Wait for the answer, until none can come, or until the time `until`. Called with the lock
 * held. False: interrupted. */
static bool await_answer(struct agent *a, const struct ask *ask, int64_t until)
{
	mutex_assert_held(&a->lock);
	while (!ask->done && !a->ended && !a->over && clock_now() < until) {
		int64_t next = clock_now() + CANCEL_PACE;
		struct timespec ts;

		if (is_call_interrupted(a))
			return false;
		if (ask->done || a->ended || a->over)
			break;
		next = next < until ? next : until;
		ts = (struct timespec){ next / NSEC_PER_SEC, next % NSEC_PER_SEC };
		mutex_wait_until(&a->answered, &a->lock, &ts);
	}
	return true;
}

enum err_code agent_call(struct agent *a, const json_t *msg, int64_t timeout_ns, json_t **answer,
    struct err *e)
{
	struct ask ask = { .text = json_text(msg) }, **p;
	bool waited;

	*answer = NULL;
	mutex_lock(&a->lock);
	enqueue_message(a, &ask);
	mutex_unlock(&a->lock);
	agent_wake(a);
	mutex_lock(&a->lock);
	waited = await_answer(a, &ask, clock_now() + timeout_ns);
	for (p = &a->asks; *p != &ask; p = &(*p)->next)
		;
	*p = ask.next;
	mutex_unlock(&a->lock);
	free(ask.text);
	if (ask.done && !ask.why.code) {
		*answer = ask.answer;
		return ERR_OK;
	}
	if (ask.done)
		return err_pass(e, &ask.why);
	if (!waited)
		return err_set(e, ERR_STOPPED, "interrupted");
	if (a->over)
		return err_set(e, ERR_STOPPED, "the cluster has ended");
	if (a->ended)
		return err_set(e, ERR_UNREACH, "the coordinator has ended: %s", a->fault.msg);
	return err_set(e, ERR_TIMEOUT, "the coordinator did not answer within %lld s",
	    (long long)(timeout_ns / NSEC_PER_SEC));
}
