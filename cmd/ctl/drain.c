/* SPDX-License-Identifier: ISC */
#include "moving.h"

static int run_drain(const struct ctl_cmd *self, int argc, char **argv)
{
	struct moving_options o;
	int nargs, code;

	if (!moving_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	return moving(o.dir, "/v1/drain", json_pack("{s:s}", "server", argv[1]), o.timeout);
}

const struct ctl_cmd ctl_cmd_drain = {
	"drain",
	{
	    .prog = "ps-ctl drain",
	    .args = "SERVER",
	    .about = "have a server give up what it holds, and leave",
	    .more =
	        "Its partitions move to the others while training goes on; then its process ends.",
	    .opts = moving_opts,
	    .nopts = MOVING_OPTS,
	    .min_args = 1,
	    .max_args = 1,
	    .examples = "  ps-ctl drain server-1\n",
	},
	run_drain,
};
