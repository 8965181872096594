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

/* The configuration of a read-only cluster, from that of the cluster whose parameters it
 * serves. */
static json_t *read_only_config(const json_t *of)
{
	static const char *const left[] = { "checkpoint_every", "checkpoint_deltas",
		"checkpoint_to", "hosts" };
	json_t *config = json_deep_copy(of);

	json_object_set_new(config, "servers", json_integer(1));
	json_object_set_new(config, "replicas", json_integer(1));
	json_object_set_new(config, "read_only", json_true());
	json_object_set_new(config, "listen", json_string("127.0.0.1:0"));
	json_object_set_new(config, "http", json_string("127.0.0.1:0"));
	/* There is no training, so there is nothing to save, upload, or start on other hosts. */
	for (size_t i = 0; i < sizeof left / sizeof *left; i++)
		json_object_del(config, left[i]);
	/* The initial model may no longer exist, and the checkpoint has all values. */
	json_object_del(json_object_get(config, "job"), "init");
	return config;
}

enum err_code readonly_prepare_from_config(const json_t *config, const char *const *sets,
    size_t nsets, struct conf *conf, char **dir, int *lock, struct err *e)
{
	json_t *own = read_only_config(config);
	enum err_code rc = conf_from_json(own, conf, e);

	for (size_t i = 0; !rc && i < nsets; i++)
		rc = conf_set(conf, sets[i], e);
	if (!rc)
		rc = conf_validate_keys(conf, e);
	json_decref(own);
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
