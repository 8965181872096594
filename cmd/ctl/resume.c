/* SPDX-License-Identifier: ISC */
#include "pausing.h"

static int run_resume(const struct ctl_cmd *self, int argc, char **argv)
{
	return pausing(self, false, argc, argv);
}

const struct ctl_cmd ctl_cmd_resume = {
	"resume",
	{
	    .prog = "ps-ctl resume",
	    .args = NULL,
	    .about = "have the workers go on after ps-ctl pause",
	    .opts = pausing_opts,
	    .nopts = PAUSING_OPTS,
	    .min_args = 0,
	    .max_args = 0,
	    .examples = "  ps-ctl resume\n",
	},
	run_resume,
};
