/* SPDX-License-Identifier: ISC */
#include "rundir/readonly.h"

#include <fcntl.h>
#include <unistd.h>

#include "ckpt/names.h"
#include "ckpt/read.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/manifest.h"
#include "rundir/prepare.h"

/* Make the configuration of a cluster that of a read-only one, which serves its parameters. */
static enum err_code make_read_only(struct conf *c, struct err *e)
{
	/* There is no training, so there is nothing to save, upload, or start on other hosts. The
	 * initial model may no longer exist, and the checkpoint has all values. */
	static const char *const left[] = { "checkpoint_every", "checkpoint_deltas",
		"checkpoint_to", "hosts", "job.init" };
	static const char *const set[] = { "servers=1", "replicas=1", "read_only=true",
		"listen=127.0.0.1:0", "http=127.0.0.1:0" };
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < sizeof left / sizeof *left; i++)
		conf_reset(c, left[i]);
	for (size_t i = 0; !rc && i < sizeof set / sizeof *set; i++)
		rc = conf_set(c, set[i], e);
	return rc;
}

enum err_code readonly_prepare_from_config(const json_t *config, const char *const *sets,
    size_t nsets, struct conf *conf, char **dir, int *lock, struct err *e)
{
	enum err_code rc = conf_from_json(config, conf, e);

	if (!rc)
		rc = make_read_only(conf, e);
	for (size_t i = 0; !rc && i < nsets; i++)
		rc = conf_set(conf, sets[i], e);
	if (!rc)
		rc = conf_validate_keys(conf, e);
	if (rc)
		return rc;
	if (!*dir)
		*dir = mem_printf("%s-read.run",
		    conf->name && *conf->name ? conf->name : "cluster");
	return rundir_prepare(conf, *dir, lock, e);
}

enum err_code readonly_prepare(const char *checkpoint, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, char **from, struct err *e)
{
	struct manifest *manifest;
	int fd = open(checkpoint, O_PATH | O_CLOEXEC);
	enum err_code rc;

	*conf = (struct conf){ 0 };
	if (fd < 0)
		return err_sys(e, ERR_NOTFOUND, "--read-only %s", checkpoint);
	rc = ckpt_verify(checkpoint, e);
	manifest = rc ? NULL : ckpt_manifest_read(checkpoint, e);
	if (!rc && !manifest)
		rc = e->code;
	if (!rc)
		rc = readonly_prepare_from_config(manifest->config, sets, nsets, conf, dir, lock,
		    e);
	manifest_free(manifest);
	/* The checkpoint may lie in a run directory that rundir_prepare has moved. */
	if (!rc)
		*from = path_of_fd(fd);
	close(fd);
	return rc;
}
