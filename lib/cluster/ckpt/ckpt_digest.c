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

static enum err_code hash_fd(int fd, char hex[static DIGEST_HEX], struct err *e)
{
	uint8_t *piece = mem_array(PIECE, 1);
	enum err_code rc = ERR_OK;
	struct digest d;
	ssize_t n;

	digest_begin(&d);
	do {
		n = read(fd, piece, PIECE);
		if (n > 0)
			digest_add(&d, piece, (size_t)n);
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0)
		rc = err_sys(e, ERR_IO, "cannot read");
	digest_end(&d, hex);
	free(piece);
	return rc;
}

static enum err_code verify_file(const char *dir, const struct manifest_file *f, struct err *e)
{
	char *path = path_join(dir, f->name), hex[DIGEST_HEX];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum err_code rc;

	if (fd < 0) {
		rc = err_sys(e, ERR_IO, "cannot open \"%s\"", path);
	} else {
		rc = hash_fd(fd, hex, e);
		if (rc)
			err_prefix(e, "\"%s\"", path);
		else if (strcmp(hex, f->blake2b) != 0)
			rc = err_set(e, ERR_FORMAT,
			    "\"%s\" is damaged: its digest differs from the one in the manifest",
			    path);
		close(fd);
	}
	free(path);
	return rc;
}

enum err_code ckpt_verify(const char *path, struct err *e)
{
	struct ckpt_reader *r;
	enum err_code rc = ckpt_open(path, &r, e);
	const struct manifest *m;

	if (rc)
		return rc;
	m = ckpt_manifest(r);
	rc = ckpt_head_check(m, path, e);
	for (uint64_t i = 0; !rc && i < m->nfiles; i++)
		rc = verify_file(path, &m->files[i], e);
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
