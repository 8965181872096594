#include "client/readonly.h"

#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/names.h"
#include "ckpt/read.h"
#include "client/prepare.h"

/* What differs from the cluster whose parameters are served. */
static json_t *config_of(const json_t *of)
{
	static const char *const left[] = { "checkpoint_every", "checkpoint_deltas", "checkpoint_to", "hosts" };
	json_t *config = json_deep_copy(of);

	json_object_set_new(config, "servers", json_integer(1));
	json_object_set_new(config, "replicas", json_integer(1));
	json_object_set_new(config, "read_only", json_true());
	json_object_set_new(config, "listen", json_string("127.0.0.1:0"));
	json_object_set_new(config, "http", json_string("127.0.0.1:0"));
	/* Nobody trains: there is nothing to save, to copy elsewhere, or to start on other hosts. */
	for (size_t i = 0; i < sizeof left / sizeof *left; i++)
		json_object_del(config, left[i]);
	/* It may not be there any more, and all values are in the checkpoint. */
	json_object_del(json_object_get(config, "job"), "init");
	return config;
}

enum err_code readonly_begin(const json_t *config, const char *const *sets, size_t nsets, struct conf *conf, char **dir, int *lock,
                             struct err *e)
{
	json_t *own = config_of(config);
	enum err_code rc = conf_from_json(own, conf, e);

	for (size_t i = 0; !rc && i < nsets; i++)
		rc = conf_set(conf, sets[i], e);
	if (!rc)
		rc = conf_validate_keys(conf, e);
	json_decref(own);
	if (rc)
		return rc;
	if (!*dir)
		*dir = mem_printf("%s-read.run", conf->name && *conf->name ? conf->name : "cluster");
	return run_prepare(conf, *dir, lock, e);
}

enum err_code readonly_prepare(const char *checkpoint, const char *const *sets, size_t nsets, struct conf *conf, char **dir, int *lock,
                               char **from, struct err *e)
{
	json_t *manifest;
	enum err_code rc;

	*conf = (struct conf){ 0 };
	if (access(checkpoint, F_OK))
		return err_sys(e, ERR_NOTFOUND, "--read-only %s", checkpoint);
	rc = ckpt_verify(checkpoint, e);
	manifest = rc ? NULL : ckpt_manifest_read(checkpoint, e);
	if (!manifest)
		return rc ? rc : e->code;
	rc = readonly_begin(json_object_get(manifest, "config"), sets, nsets, conf, dir, lock, e);
	json_decref(manifest);
	if (!rc)
		*from = path_absolute(checkpoint);
	return rc;
}
