#ifndef CMD_STAT_GNUPLOT_H
#define CMD_STAT_GNUPLOT_H

#include "cmd/stat/past.h"

/* The series, one below the other, as a picture on standard output: "svg" or "png".  across:
 * what x is.  ERR_NOTFOUND: gnuplot is not installed. */
enum err_code gnuplot_write(const struct series *s, size_t n, const char *across, const char *format, struct err *e);

#endif
