/* SPDX-License-Identifier: ISC */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/data_object.h"
#include "format/uri.h"
#include "saved/saved_kind.h"

/* A model file at s3:// or https://. It is downloaded into a file in $TMPDIR, whose name is removed before
 * the first byte arrives, so that nothing is left behind however this process ends. */

#define COPY_BYTES (1u << 20)

/* A file without a name. ERR_IO. */
static enum err_code open_nameless_file(int *fd, char **where, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	char *path = mem_printf("%s/pskit-model-XXXXXX", tmp && *tmp ? tmp : "/tmp");

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

enum err_code saved_remote_open(const char *url, struct saved_model **out, struct err *e)
{
	char *shown = uri_shown(url), *where = NULL;
	int fd = -1;
	enum err_code rc = open_nameless_file(&fd, &where, e);

	if (!rc) {
		rc = download_model(url, fd, where, e);
		if (rc)
			err_prefix(e, "cannot get the model");
	}
	if (!rc)
		rc = saved_file_open_fd(fd, shown, out, e);
	else if (fd >= 0)
		close(fd);
	free(where);
	free(shown);
	return rc;
}
