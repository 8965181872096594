/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "ckpt/names.h"
#include "ckpt/write.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/digest.h"

struct ckpt_receive {
	struct digest digest;
	struct file_new file;
	uint64_t size, got;
	bool check;
	char name[CKPT_NAME];
};

/* Reserves the file's blocks, where the file system can; elsewhere a full disk shows later. */
static enum err_code allocate_file(int fd, uint64_t size, struct err *e)
{
	int why;

	do
		why = posix_fallocate(fd, 0, (off_t)size);
	while (why == EINTR);
	if (why == 0 || why == EOPNOTSUPP || why == EINVAL || why == ENOSYS)
		return ERR_OK;
	errno = why;
	return err_sys(e, ERR_IO, "no disk space for %" PRIu64 " bytes", size);
}

enum err_code ckpt_receive_begin(const char *dir, const char *name, uint64_t size, bool check,
    struct ckpt_receive **out, struct err *e)
{
	struct ckpt_receive *r;
	enum err_code rc;
	char *path;

	*out = NULL;
	if (!ckpt_may_have(name) || size > INT64_MAX)
		return err_set(e, ERR_PROTO, "not a file of a checkpoint, or invalid size");
	r = mem_try_array(1, sizeof *r);
	if (!r)
		return err_set(e, ERR_NOMEM, "no memory to receive %s", name);
	r->size = size;
	r->check = check;
	snprintf(r->name, sizeof r->name, "%s", name);
	digest_begin(&r->digest);
	path = path_join(dir, name);
	rc = file_new_open(path, 0600, &r->file, e);
	free(path);
	if (rc) {
		free(r);
		return rc;
	}
	rc = allocate_file(r->file.fd, size, e);
	if (rc)
		return ckpt_receive_end(r, rc, NULL, e);
	*out = r;
	return ERR_OK;
}

enum err_code ckpt_receive_put(struct ckpt_receive *r, const void *p, size_t n, struct err *e)
{
	if (n > r->size - r->got)
		return err_set(e, ERR_LIMIT,
		    "%s has more than the %" PRIu64 " bytes that were announced", r->name, r->size);
	r->got += n;
	if (r->check)
		digest_add(&r->digest, p, n);
	return file_write_all(r->file.fd, p, n, e);
}

enum err_code ckpt_receive_end(struct ckpt_receive *r, enum err_code rc, const char *blake2b,
    struct err *e)
{
	char hex[DIGEST_HEX];

	digest_end(&r->digest, hex);
	if (!rc && r->got != r->size)
		rc = err_set(e, ERR_FORMAT, "received %" PRIu64 " of %" PRIu64 " bytes", r->got,
		    r->size);
	if (!rc && r->check && (!blake2b || strcmp(hex, blake2b) != 0))
		rc = err_set(e, ERR_FORMAT, "it was damaged in transfer");
	rc = file_new_close(&r->file, rc, e);
	free(r);
	return rc;
}
