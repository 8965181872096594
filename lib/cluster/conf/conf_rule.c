/* SPDX-License-Identifier: ISC */
#include "conf/conf_rule.h"

#include <string.h>

#include "core/clock.h"
#include "wire/transport.h"

/* The interval of a worker's heartbeats: a part for each worker of the job, and its upper limit. */
#define HEARTBEAT_FOR_EACH (8 * NSEC_PER_MSEC)
#define HEARTBEAT_MOST     (600 * NSEC_PER_MSEC)

enum err_code conf_job_rule(const struct conf *c, struct conf_rule *out, struct err *e)
{
	const struct conf_job *job = &c->job;
	struct optim_hyper *h = &out->hyper;

	out->rule = optim_find(job->optimizer);
	if (!out->rule)
		return err_set(e, ERR_CONFIG, "job.optimizer: no update rule \"%s\"",
		    job->optimizer);
	out->rule->defaults(h);
	h->lr = (float)job->lr;
	h->momentum = (float)job->momentum;
	h->beta1 = (float)job->beta1;
	h->beta2 = (float)job->beta2;
	if ((float)job->eps > 0)
		h->eps = (float)job->eps;
	h->initial = (float)job->initial_accumulator;
	h->rho = (float)job->rho;
	h->ftrl_beta = (float)job->ftrl_beta;
	h->l1 = (float)job->l1;
	h->l2 = (float)job->l2;
	return conf_table_rules(job->rules, out, &out->tables, e)
	    ? ERR_CONFIG
	    : schedule_parse(job->schedule, &out->schedule, e);
}

enum err_code conf_server_rule(const struct conf *c, struct conf_rule *out, struct err *e)
{
	bool nesterov = strcmp(c->outer, "nesterov") == 0, adam = strcmp(c->outer, "adam") == 0;

	/* A read-only cluster applies no gradients: take the rule without optimizer state. */
	if (c->read_only)
		nesterov = adam = false;
	else if (c->local_steps < 2)
		return conf_job_rule(c, out, e);
	out->rule = optim_find(nesterov ? "nesterov" : adam ? "adam" : "sgd");
	out->rule->defaults(&out->hyper);
	out->hyper.lr = nesterov ? 0.7f : adam ? 0.3f : 1;
	out->hyper.momentum = 0.9f;
	if (adam)
		out->hyper.eps = 0.1f;
	out->hyper.l1 = out->hyper.l2 = 0;
	out->tables.n = 0;
	return schedule_parse("constant", &out->schedule, e);
}

bool conf_shares_memory(const struct conf *c)
{
	return transport_find(c->transport)->accepts_memory(c->mem_limit > 0);
}

uint64_t conf_step_examples(const struct conf *c)
{
	return (uint64_t)c->job.batch * (uint64_t)c->accumulate * (uint64_t)c->local_steps;
}

int64_t conf_worker_heartbeat(const struct conf *c)
{
	int64_t interval = c->workers.max * HEARTBEAT_FOR_EACH;

	if (interval > HEARTBEAT_MOST)
		interval = HEARTBEAT_MOST;
	if (interval > c->lease / 8)
		interval = c->lease / 8;
	return interval > c->heartbeat ? interval : c->heartbeat;
}
