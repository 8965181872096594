#ifndef SYNC_ROBUST_H
#define SYNC_ROBUST_H

#include "base/err.h"

/* How the contributions of a bsp step become one gradient, so that few bad ones cannot spoil it:
 * coordinate by coordinate their median, or their mean without the K lowest and the K highest;
 * or the mean of what is left when each is shortened to X times their median length. */
enum robust_kind { ROBUST_NONE, ROBUST_MEDIAN, ROBUST_TRIMMED, ROBUST_CLIP };

struct robust {
	enum robust_kind kind;
	unsigned trim;                  /* K */
	double clip;                    /* X */
};

/* "none", "median", "trimmed:2", "clip:3".  ERR_CONFIG with a sentence otherwise. */
enum err_code robust_parse(const char *text, struct robust *out, struct err *e);

#endif
