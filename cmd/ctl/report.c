/* SPDX-License-Identifier: ISC */
#include <stdio.h>

#include "ctl.h"
#include "lab/report_page.h"

static int run_report(const struct ctl_cmd *self, int argc, char **argv)
{
	struct buf page = BUF_INIT;
	struct report_run r;
	struct err e = { 0 };
	int nargs, code;

	if (!ctl_parse(self, NULL, argc, argv, &nargs, &code))
		return code;
	if (report_run_read(argv[1], &r, &e))
		return ctl_fail(&e);
	report_page(&page, &r);
	fwrite(page.data, 1, page.len, stdout);
	fflush(stdout);
	buf_release(&page);
	report_run_release(&r);
	return 0;
}

const struct ctl_cmd ctl_cmd_report = {
	"report",
	{
	    .prog = "ps-ctl report",
	    .args = "RUN",
	    .about = "write an HTML page about a run: result, curves, settings, events",
	    .more =
	        "RUN is a run directory, as NAME.run.1, of a running, finished or crashed run. The page is one\n"
	        "complete HTML file. It loads no other files and has no script.",
	    .min_args = 1,
	    .max_args = 1,
	    .examples = "  ps-ctl report lin.run > report.html\n",
	},
	run_report,
};
