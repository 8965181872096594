/* SPDX-License-Identifier: ISC */
#ifndef TABLE_FIXTURE_H
#define TABLE_FIXTURE_H

/* Loads tables from texts, and looks at their rows. */
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "data/source/data_uri.h"

__attribute__((unused)) static const struct data_want real, two = { .two = true },
                                                            any = { .any = true };

/* options: as behind a path's "?". */
static struct dataset *load(const char *text, const char *options, const struct data_want *want,
    const struct dataset *like, struct err *e)
{
	char path[200], *file;
	struct data_options o;
	struct dataset *d = NULL;
	struct stream *s = NULL;

	*e = (struct err){ 0 };
	snprintf(path, sizeof path, "x%s%s", *options ? "?" : "", options);
	if (data_uri_parse(path, &file, &o, e) != ERR_OK)
		return NULL;
	if (stream_memory(text, strlen(text), "text", &s, e) == ERR_OK)
		data_load_stream(s, &o, want, like, &d, e);
	stream_close(s);
	data_uri_release(&o);
	free(file);
	return d;
}

__attribute__((unused)) static void refused(const char *text, const char *options,
    const struct dataset *like, const char *why)
{
	struct err e;
	struct dataset *d = load(text, options, &real, like, &e);

	ok(!d && strstr(e.msg, why), "%s", d ? why : e.msg);
	dataset_free(d);
}

/* Is row r this list of values, to 1e-5? */
__attribute__((unused)) static bool row_is(const struct dataset *d, size_t r, const double *want,
    size_t n)
{
	bool same = d && !d->sparse && d->cols == n && r < d->rows;

	for (size_t i = 0; same && i < n; i++)
		same = fabs((double)d->x[r * n + i] - want[i]) < 1e-5;
	return same;
}
#define ROW(d, r, ...) \
	row_is(d, r, (const double[]){ __VA_ARGS__ }, \
	    sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double))

#endif
