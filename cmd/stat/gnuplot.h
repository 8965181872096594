/* SPDX-License-Identifier: ISC */
#ifndef CMD_STAT_GNUPLOT_H
#define CMD_STAT_GNUPLOT_H

#include "cmd/stat/past.h"

/* Write the series, one plot below the other, as a picture to standard output, by running
 * gnuplot. format: "svg" or "png". across: the label of the x axis. ERR_NOTFOUND: gnuplot is
 * not installed; ERR_NOTREADY: a series has no values yet. */
enum err_code gnuplot_write(const struct series *s, size_t n, const char *across,
    const char *format, struct err *e);

#endif
