/* SPDX-License-Identifier: ISC */
#include "doctor.h"

#include "core/json.h"
#include "core/num.h"

/* Checks whether the job learns. Both a live run and one that has ended are examined. */

void doctor_refused_pushes(struct doctor *d, const char *about, int64_t n)
{
	if (n > 0)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_CAUSE, "gradients", about,
		    "ps-ctl events refused names the workers; lower the learning rate, scale the data or "
		    "set clip_norm=1, and raise mem_limit if a server lacks memory",
		    "%s has refused %lld push%s, which %s not in the model", about, (long long)n,
		    n == 1 ? "" : "es", n == 1 ? "is" : "are");
}
