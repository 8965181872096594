/* SPDX-License-Identifier: ISC */
#ifndef CORE_C_LOCALE_H
#define CORE_C_LOCALE_H

/* Parses a number as strtod does in the C locale, whatever the locale of the program is: one that uses the library
 * may have set another, in which the comma is the decimal sign. Any thread. */
double c_locale_strtod(const char *s, char **end);

#endif
