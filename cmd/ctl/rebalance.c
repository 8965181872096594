/* SPDX-License-Identifier: ISC */
#include "moving.h"

static int run_rebalance(const struct ctl_cmd *self, int argc, char **argv)
{
	struct moving_options o;
	int nargs, code;

	if (!moving_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	return moving(o.dir, "/v1/rebalance", json_object(), o.timeout);
}

const struct ctl_cmd ctl_cmd_rebalance = {
	"rebalance",
	{
	    .prog = "ps-ctl rebalance",
	    .args = NULL,
	    .about = "even out what the servers hold",
	    .more =
	        "Runs of partitions move from servers that hold much to servers that hold little, while training\ngoes on.  It happens by itself when a server joins.",
	    .opts = moving_opts,
	    .nopts = MOVING_OPTS,
	    .min_args = 0,
	    .max_args = 0,
	    .examples = "  ps-ctl rebalance\n",
	},
	run_rebalance,
};
