/* SPDX-License-Identifier: ISC */
#include <curl/curl.h>
#include <sodium.h>
#include <stdio.h>

#include "core/version.h"
#include "ctl.h"

struct options {
	bool json;
};

static const struct opt opts[] = { CTL_OPT_JSON(struct options, json) };

static int run_version(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	json_t *j;
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (!o.json) {
		printf("ps-ctl %s (protocol %d, libsodium %s)\n", PSKIT_VERSION, PSKIT_PROTOCOL,
		    sodium_version_string());
		return 0;
	}
	j = json_pack("{s:s, s:s, s:i, s:s, s:s, s:s}", "name", "ps-ctl", "version", PSKIT_VERSION,
	    "protocol", PSKIT_PROTOCOL, "libsodium", sodium_version_string(), "libcurl",
	    curl_version_info(CURLVERSION_NOW)->version, "jansson", jansson_version_str());
	json_print_event("version", j);
	json_decref(j);
	return 0;
}

const struct ctl_cmd ctl_cmd_version = {
	"version",
	{
	    .prog = "ps-ctl version",
	    .about = "print the version of the program and of its components",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .examples = "  ps-ctl version --json | jq -r .protocol\n",
	},
	run_version,
};
