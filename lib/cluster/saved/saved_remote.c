/* SPDX-License-Identifier: ISC */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/names.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/helper.h"
#include "core/mem.h"
#include "data/source/data_object.h"
#include "format/uri.h"
#include "saved/saved_kind.h"

/* A model file or a checkpoint at s3:// or https://. A file is downloaded into one in $TMPDIR,
 * whose name is removed before the first byte arrives, so that nothing is left over however this
 * process ends. The files of a checkpoint are downloaded into a directory there, by a ps-ctl
 * process, and removed once they are open: only a process that is killed during the download leaves
 * them there. */

#define COPY_BYTES (1u << 20)

/* A file without a name. ERR_IO. */
static enum err_code open_nameless_file(int *fd, char **where, struct err *e)
{
	char *path = path_temporary("model");

	*fd = mkostemp(path, O_CLOEXEC);
	*where = path;
	if (*fd < 0)
		return err_sys(e, ERR_IO, "cannot make the file %s", path);
	unlink(path);
	return ERR_OK;
}

static enum err_code write_bytes(int fd, const uint8_t *p, size_t n, const char *where,
    struct err *e)
{
	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0)
			return err_sys(e, ERR_IO, "cannot write the model into %s", where);
		p += done;
		n -= (size_t)done;
	}
	return ERR_OK;
}

static enum err_code copy_object(struct stream *s, int fd, const char *where, struct err *e)
{
	uint8_t *piece = mem_alloc(COPY_BYTES);
	enum err_code rc = ERR_OK;
	size_t n = 1;

	while (!rc && n) {
		rc = stream_read(s, piece, COPY_BYTES, &n, e);
		if (!rc)
			rc = write_bytes(fd, piece, n, where, e);
	}
	free(piece);
	return rc;
}

static enum err_code download_model(const char *url, int fd, const char *where, struct err *e)
{
	struct data_object_facts facts;
	struct stream *s = NULL;
	enum err_code rc = data_object_stat(url, &facts, e);

	if (!rc)
		rc = data_object_part(url,
		    &(struct data_object_range){ .end = facts.size,
		        .size = facts.size,
		        .version = facts.version,
		        .plain = true },
		    &s, e);
	if (!rc)
		rc = copy_object(s, fd, where, e);
	stream_close(s);
	return rc;
}

static enum err_code open_remote_file(const char *url, struct saved_model **out, struct err *e)
{
	char *shown = uri_shown(url), *where = NULL;
	int fd = -1;
	enum err_code rc = open_nameless_file(&fd, &where, e);

	if (!rc) {
		rc = download_model(url, fd, where, e);
		if (rc)
			err_prefix(e, "cannot fetch the model");
	}
	if (!rc)
		rc = saved_file_open_fd(fd, shown, out, e);
	else if (fd >= 0)
		close(fd);
	free(where);
	free(shown);
	return rc;
}

/* ---- a checkpoint ---- */

/* The URL without slashes at its end, as a fresh string. */
static char *strip_slashes(const char *url)
{
	size_t n = strlen(url);

	while (n > 0 && url[n - 1] == '/')
		n--;
	return mem_printf("%.*s", (int)n, url);
}

bool saved_remote_is_checkpoint(const char *url)
{
	char *whole = strip_slashes(url);
	uint64_t step;
	bool is = uri_is(whole) && ckpt_step_parse(path_basename(whole), &step);

	free(whole);
	return is;
}

/* Downloads the checkpoint into the directory dir and checks it there. *path is its path, a fresh
 * string. */
static enum err_code download_checkpoint(const char *url, const char *dir, char **path,
    struct err *e)
{
	const char *args[] = { "checkpoint", "fetch", url, dir, NULL };
	struct buf text = BUF_INIT;
	enum err_code rc = helper_run(args, NULL, &text, e);

	/* ps-ctl prints the path and a newline. */
	*path = mem_printf("%.*s", text.len ? (int)text.len - 1 : 0, (const char *)text.data);
	buf_release(&text);
	return rc;
}

static enum err_code open_remote_checkpoint(const char *url, struct saved_model **out,
    struct err *e)
{
	char *dir, *whole = strip_slashes(url), *path = NULL;
	enum err_code rc = file_make_unique_dir(path_temporary("model"), &dir, e);

	if (!rc) {
		rc = download_checkpoint(whole, dir, &path, e);
		if (rc)
			err_prefix(e, "cannot get the checkpoint");
		else
			rc = saved_checkpoint_open_copy(path, whole, out, e);
		file_remove_tree(dir, NULL);
	}
	free(path);
	free(whole);
	free(dir);
	return rc;
}

enum err_code saved_remote_open(const char *url, struct saved_model **out, struct err *e)
{
	return saved_remote_is_checkpoint(url) ? open_remote_checkpoint(url, out, e)
	                                       : open_remote_file(url, out, e);
}
