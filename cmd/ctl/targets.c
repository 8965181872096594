/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"

struct options {
	const char *dir;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
};

static int run_targets(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	json_t *targets = NULL;
	struct err e = { 0 };
	enum err_code rc;
	int nargs, code;
	char *text;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	rc = ctl_request_soon(o.dir,
	    &(struct ctl_call){ .method = "GET",
	        .path = "/v1/prometheus/targets",
	        .repeatable = true },
	    CTL_CALL, &targets, &e);
	if (rc != ERR_OK)
		return ctl_fail(&e);
	text = json_dumps(targets, JSON_INDENT(2));
	if (text)
		puts(text);
	free(text);
	json_decref(targets);
	return 0;
}

const struct ctl_cmd ctl_cmd_targets = {
	"targets",
	{
	    .prog = "ps-ctl targets",
	    .args = NULL,
	    .about = "print the addresses of /metrics for Prometheus' file_sd_configs",
	    .more =
	        "Prometheus sends its requests with a bearer token of the role monitor; ps-ctl invite --role\n"
	        "monitor prints one. Instead of the file it can read the addresses from the cluster itself, at\n"
	        "/v1/prometheus/targets; see ps-metrics(7).",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .examples =
	        "  ps-ctl targets > ps.targets.json\n"
	        "  ps-ctl invite --role monitor --name prometheus | jq -r .token > ps.token\n",
	},
	run_targets,
};
