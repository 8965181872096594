#include <stddef.h>

#include "base/clock.h"
#include "moving.h"

struct options {
	const char *dir;
	int64_t timeout;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	CTL_OPT_TIMEOUT(struct options, timeout, "how long to wait until it is done (60s)"),
};

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .timeout = 60 * NSEC_PER_SEC };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	return moving(o.dir, "/v1/rebalance", json_object(), o.timeout);
}

const struct ctl_cmd ctl_cmd_rebalance = {
	"rebalance",
	{
		.prog = "ps-ctl rebalance", .args = NULL,
		.about = "even out what the servers hold",
		.more = "Runs of partitions move from servers that hold much to servers that hold little, while training\ngoes on.  It happens by itself when a server joins.",
		.opts = opts, .nopts = CTL_COUNT(opts), .min_args = 0, .max_args = 0,
		.examples = "  ps-ctl rebalance\n",
	},
	run,
};
