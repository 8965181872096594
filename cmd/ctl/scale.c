/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "core/num.h"
#include "moving.h"

/* Makes the body {"servers":N,"workers":N} from the words "servers=N" and "workers=N".  Returns
 * NULL after reporting a wrong word. */
static json_t *parse_targets(const struct ctl_cmd *self, char **word, int n)
{
	json_t *body = json_object();

	for (int i = 0; i < n; i++) {
		const char *is = strchr(word[i], '=');
		int64_t value;

		if ((strncmp(word[i], "servers=", 8) != 0 &&
		        strncmp(word[i], "workers=", 8) != 0) ||
		    !num_int(is + 1, 1, 65535, &value)) {
			ctl_report_misuse(self, "\"%s\": must be servers=N or workers=N", word[i]);
			json_decref(body);
			return NULL;
		}
		word[i][7] = 0;
		json_object_set_new(body, word[i], json_integer(value));
	}
	return body;
}

static int run_scale(const struct ctl_cmd *self, int argc, char **argv)
{
	struct moving_options o;
	int nargs, code;
	json_t *body;

	if (!moving_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	body = parse_targets(self, argv + 1, nargs);
	return body ? moving(o.dir, "/v1/scale", body, o.timeout) : 2;
}

const struct ctl_cmd ctl_cmd_scale = {
	"scale",
	{
	    .prog = "ps-ctl scale",
	    .args = "servers=N|workers=N ...",
	    .about = "change how many servers and workers a running cluster has",
	    .more =
	        "New processes are started by who started the cluster (or come with join files); partitions move\nto new servers and from those that go while training goes on.  Returns when all lie where they shall.",
	    .opts = moving_opts,
	    .nopts = MOVING_OPTS,
	    .min_args = 1,
	    .max_args = 2,
	    .examples = "  ps-ctl scale servers=4\n  ps-ctl scale servers=2 workers=6\n",
	},
	run_scale,
};
