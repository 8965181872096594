/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "ckpt/names.h"
#include "ckpt/read.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/digest.h"
#include "msg/manifest.h"

#define PIECE 65536u /* values, or bytes */

/* ---- digests of files ---- */

struct ckpt_check {
	struct digest digest; /* of the present file; first, because it must be aligned */
	const struct ckpt_reader *reader;
	size_t at; /* the number of the present file */
	int *fd;   /* for each file; -1: it has been read, or is in another share */
	uint8_t piece[PIECE];
};

/* Is the file of this share? The description of the data, which no server has written, is of share
 * 0. */
static bool is_in_share(const char *name, const struct ckpt_share *share)
{
	unsigned server = 0;
	bool state;

	return !share ||
	    (ckpt_held_parse(name, &server, &state) ? server : 0) % share->of == share->index;
}

/* Goes on to the next file of the share. */
static void skip_files(struct ckpt_check *c)
{
	while (!ckpt_check_is_done(c) && c->fd[c->at] < 0)
		c->at++;
}

static enum err_code open_files(struct ckpt_check *c, const struct ckpt_share *share, struct err *e)
{
	const struct manifest *m = ckpt_manifest(c->reader);
	enum err_code rc = ERR_OK;

	c->fd = mem_array(m->nfiles + 1, sizeof *c->fd);
	for (size_t i = 0; i < m->nfiles; i++)
		c->fd[i] = -1;
	for (size_t i = 0; !rc && i < m->nfiles; i++) {
		char *path;

		if (!is_in_share(m->files[i].name, share))
			continue;
		path = path_join(ckpt_path(c->reader), m->files[i].name);
		c->fd[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (c->fd[i] < 0)
			rc = err_sys(e, ERR_IO, "cannot open \"%s\"", path);
		free(path);
	}
	skip_files(c);
	return rc;
}

bool ckpt_check_is_done(const struct ckpt_check *c)
{
	return c->at >= ckpt_manifest(c->reader)->nfiles;
}

enum err_code ckpt_check_begin(const struct ckpt_reader *r, const struct ckpt_share *share,
    struct ckpt_check **out, struct err *e)
{
	struct ckpt_check *c = mem_try_array(1, sizeof *c);
	enum err_code rc = ckpt_head_check(ckpt_manifest(r), ckpt_path(r), e);

	*out = NULL;
	if (!c)
		mem_fail();
	c->reader = r;
	digest_begin(&c->digest);
	if (!rc)
		rc = open_files(c, share, e);
	if (rc)
		ckpt_check_free(c);
	else
		*out = c;
	return rc;
}

void ckpt_check_free(struct ckpt_check *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->fd && i < ckpt_manifest(c->reader)->nfiles; i++)
		if (c->fd[i] >= 0)
			close(c->fd[i]);
	free(c->fd);
	free(c);
}

/* The present file has been read: compares its digest, and goes on to the next one. */
static enum err_code end_file(struct ckpt_check *c, const struct manifest_file *f, const char *path,
    struct err *e)
{
	char hex[DIGEST_HEX];

	close(c->fd[c->at]);
	c->fd[c->at] = -1;
	skip_files(c);
	digest_end(&c->digest, hex);
	digest_begin(&c->digest);
	if (strcmp(hex, f->blake2b) == 0)
		return ERR_OK;
	return err_set(e, ERR_FORMAT,
	    "\"%s\" is damaged: its digest differs from the one in the manifest", path);
}

/* Reads at most *left bytes of the present file, and subtracts them. */
static enum err_code check_file(struct ckpt_check *c, uint64_t *left, struct err *e)
{
	const struct manifest_file *f = &ckpt_manifest(c->reader)->files[c->at];
	char *path = path_join(ckpt_path(c->reader), f->name);
	enum err_code rc = ERR_OK;
	ssize_t n = 1;

	while (!rc && *left && n != 0) {
		n = read(c->fd[c->at], c->piece, *left < PIECE ? (size_t)*left : PIECE);
		if (n < 0 && errno != EINTR)
			rc = err_sys(e, ERR_IO, "\"%s\": cannot read", path);
		if (n <= 0)
			continue;
		digest_add(&c->digest, c->piece, (size_t)n);
		*left -= (uint64_t)n;
	}
	if (!rc && n == 0)
		rc = end_file(c, f, path, e);
	free(path);
	return rc;
}

enum err_code ckpt_check_some(struct ckpt_check *c, uint64_t most, struct err *e)
{
	enum err_code rc = ERR_OK;

	while (!rc && most && !ckpt_check_is_done(c))
		rc = check_file(c, &most, e);
	return rc;
}

enum err_code ckpt_verify(const char *path, struct err *e)
{
	struct ckpt_check *check = NULL;
	struct ckpt_reader *r;
	enum err_code rc = ckpt_open(path, &r, e);

	if (rc)
		return rc;
	rc = ckpt_check_begin(r, NULL, &check, e);
	if (!rc)
		rc = ckpt_check_some(check, UINT64_MAX, e);
	ckpt_check_free(check);
	ckpt_close(r);
	return rc;
}

/* ---- digest of the model ---- */

static enum err_code hash_dense(const struct ckpt_reader *r, const struct ckpt_table *t,
    struct digest *d, struct err *e)
{
	uint64_t all = t->rows * t->cols, n;
	float *x = mem_array(PIECE, sizeof *x);
	enum err_code rc = ERR_OK;

	for (uint64_t at = 0; !rc && at < all; at += n) {
		n = all - at < PIECE ? all - at : PIECE;
		rc = ckpt_read_dense(r, t, at, n, x, e);
		if (!rc)
			digest_values(d, x, n);
	}
	free(x);
	return rc;
}

static enum err_code hash_sparse(const struct ckpt_reader *r, const struct ckpt_table *t,
    struct digest *d, struct err *e)
{
	struct ckpt_scan *scan;
	enum err_code rc = ckpt_scan_begin(r, t, &scan, e);
	const float *row = NULL;
	uint64_t id;

	while (!rc) {
		rc = ckpt_scan_next(scan, &id, &row, e);
		if (rc || !row)
			break;
		digest_rows(d, &id, row, t->cols, 1);
	}
	ckpt_scan_end(scan);
	return rc;
}

static int compare_table_names(const void *a, const void *b)
{
	return strcmp((*(const struct ckpt_table *const *)a)->name,
	    (*(const struct ckpt_table *const *)b)->name);
}

enum err_code ckpt_digest(const struct ckpt_reader *r, char hex[static 65], struct err *e)
{
	size_t all = ckpt_tables(r), n = 0;
	const struct ckpt_table **list = mem_array(all, sizeof *list);
	enum err_code rc = ERR_OK;
	struct digest d;

	for (size_t i = 0; i < all; i++)
		if (!ckpt_table_at(r, i)->added)
			list[n++] = ckpt_table_at(r, i);
	qsort((void *)list, n, sizeof *list, compare_table_names);
	digest_begin(&d);
	for (size_t i = 0; !rc && i < n; i++) {
		digest_table(&d, list[i]->name);
		rc = list[i]->sparse ? hash_sparse(r, list[i], &d, e)
		                     : hash_dense(r, list[i], &d, e);
	}
	digest_end(&d, hex);
	free((void *)list);
	return rc;
}
