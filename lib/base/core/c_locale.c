/* SPDX-License-Identifier: ISC */
#include "core/c_locale.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

/* The C locale is static, so that this does not fail and allocates nothing. */
static void open_c_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double c_locale_strtod(const char *s, char **end)
{
	pthread_once(&c_locale_once, open_c_locale);
	return strtod_l(s, end, c_locale);
}
