/* SPDX-License-Identifier: ISC */
#include "pausing.h"

static int run_pause(const struct ctl_cmd *self, int argc, char **argv)
{
	return pausing(self, true, argc, argv);
}

const struct ctl_cmd ctl_cmd_pause = {
	"pause",
	{
	    .prog = "ps-ctl pause",
	    .args = NULL,
	    .about = "have the workers rest before their next step",
	    .more =
	        "Servers and workers stay, and what they hold; a restart of the coordinator changes nothing.  Returns\n"
	        "when every worker rests; ps-ctl resume has them go on.",
	    .opts = pausing_opts,
	    .nopts = PAUSING_OPTS,
	    .min_args = 0,
	    .max_args = 0,
	    .examples = "  ps-ctl pause && ps-ctl checkpoint && ps-ctl resume\n",
	},
	run_pause,
};
