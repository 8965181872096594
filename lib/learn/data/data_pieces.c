/* SPDX-License-Identifier: ISC */
#include "data/data_pieces.h"

#include <string.h>

#include "core/mem.h"
#include "data/data_build.h"
#include "data/data_head.h"
#include "data/data_uri.h"

void data_pieces_release(struct data_pieces *l)
{
	data_uri_release(&l->options);
	free(l->heading);
	*l = (struct data_pieces){ 0 };
}

uint64_t data_pieces_lines(const char *p, size_t n)
{
	uint64_t lines = 0;

	for (const char *end = p + n, *nl; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1)
		lines++;
	return lines;
}

/* Keeps what the first piece has shown. */
static void keep_decision(struct data_pieces *l, const struct dataset *d, const char *p, size_t n)
{
	data_head_decide(&l->options, d);
	l->heading = data_head_line(p, n, d->heading);
	l->begun = true;
}

enum err_code data_pieces_load(struct data_pieces *l, const char *name, const char *p, size_t n,
    const struct data_want *want, const struct dataset *like, struct dataset **out, struct err *e)
{
	struct data_build *build = data_build_new(want, like, NULL);
	size_t before = l->heading ? strlen(l->heading) : 0;
	char *text = before ? mem_alloc(before + n) : NULL;
	struct stream *s;
	enum err_code rc;

	*out = NULL;
	if (text) {
		memcpy(text, l->heading, before);
		memcpy(text + before, p, n);
	}
	rc = stream_memory(text ? text : p, before + n, name, &s, e);
	if (!rc) {
		stream_number(s, l->lines - (before > 0));
		rc = data_build_read(build, s, &l->options, e);
	}
	stream_close(s);
	if (!rc && !l->begun && (build->d->rows || build->d->heading))
		keep_decision(l, build->d, p, n);
	if (!rc && build->d->rows)
		rc = data_build_finish(build, out, e);
	data_build_free(build);
	free(text);
	return rc;
}
