/* SPDX-License-Identifier: ISC */
#include "aggregate/robust.h"

#include <string.h>

#include "core/num.h"

enum err_code robust_parse(const char *text, struct robust *out, struct err *e)
{
	struct robust r = { .kind = ROBUST_NONE };
	int64_t k;

	if (strcmp(text, "median") == 0) {
		r.kind = ROBUST_MEDIAN;
	} else if (strncmp(text, "trimmed:", 8) == 0 &&
	    num_int(text + 8, 1, ROBUST_TRIMMED_MAX, &k)) {
		r.kind = ROBUST_TRIMMED;
		r.trim = (unsigned)k;
	} else if (strncmp(text, "clip:", 5) == 0 && num_double(text + 5, &r.clip) && r.clip > 0 &&
	    r.clip <= 1e6) {
		r.kind = ROBUST_CLIP;
	} else if (strcmp(text, "none") != 0) {
		return err_set(e, ERR_CONFIG,
		    "must be none, median, trimmed:K with K of 1 to %u, or clip:X with X above 0, got \"%.80s\"",
		    ROBUST_TRIMMED_MAX, text);
	}
	*out = r;
	return ERR_OK;
}
