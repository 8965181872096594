#ifndef DATA_NUM_H
#define DATA_NUM_H

#include <stdbool.h>

/* The decimal number at p, text that ends in a NUL:
 *   [+-] digits [. digits] [e [+-] digits]
 * with a digit before or after the point.  Returns the first byte after it, or
 * NULL when there is none.  Rounded as strtod does (exactly); overflow gives an
 * infinity.  Short numbers take the fast path of Clinger, "How to read floating
 * point numbers accurately" (1990): the digits and the power of ten are exact
 * doubles, so that their product or quotient is rounded once. */
const char *data_num(const char *p, double *out);

/* The same of the whole text, finite. */
bool data_num_all(const char *p, double *out);

#endif
