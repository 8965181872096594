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
	return moving(o.dir, "/v1/drain", json_pack("{s:s}", "server", argv[1]), o.timeout);
}

const struct ctl_cmd ctl_cmd_drain = {
	"drain",
	{
		.prog = "ps-ctl drain", .args = "SERVER",
		.about = "have a server give up what it holds, and leave",
		.more = "Its partitions move to the others while training goes on; then its process ends.",
		.opts = opts, .nopts = CTL_COUNT(opts), .min_args = 1, .max_args = 1,
		.examples = "  ps-ctl drain server-1\n",
	},
	run,
};
