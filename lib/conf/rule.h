#ifndef CONF_RULE_H
#define CONF_RULE_H

#include "conf/conf.h"
#include "optim/optim.h"
#include "optim/schedule.h"

/* An update rule as a cluster file configures it. */
struct conf_rule {
	const struct optim_rule *rule;
	struct optim_hyper hyper;       /* lr before the schedule */
	struct schedule schedule;
};

/* job.optimizer, by which servers update; or workers, when they take steps alone.
 * ERR_CONFIG. */
enum err_code conf_job_rule(const struct conf *c, struct conf_rule *out, struct err *e);
/* By which servers update: job.optimizer, or with local_steps the outer rule, to
 * which the way that a worker has come back is a gradient: average (sgd, lr 1),
 * nesterov (lr 0.7, momentum 0.9) or adam (lr 0.3, eps 0.1), as in Douillard et al.,
 * "DiLoCo", 2023. */
enum err_code conf_server_rule(const struct conf *c, struct conf_rule *out, struct err *e);

/* Examples of one worker's step: of all its batches, from push to push. */
uint64_t conf_step_examples(const struct conf *c);
/* Do sessions on one host go by shared memory, and is that part of what a server may use? */
bool conf_shares_memory(const struct conf *c);

#endif
