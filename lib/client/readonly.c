#include "client/readonly.h"

#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/names.h"
#include "ckpt/read.h"
#include "client/prepare.h"

/* What differs from the cluster that made the checkpoint. */
static json_t *config_of(const json_t *manifest)
{
	static const char *const left[] = { "checkpoint_every", "checkpoint_deltas", "checkpoint_to", "hosts" };
	json_t *config = json_deep_copy(json_object_get(manifest, "config"));

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

static enum err_code configure(const char *checkpoint, const char *const *sets, size_t nsets, struct conf *conf, struct err *e)
{
	json_t *manifest, *config;
	enum err_code rc = ckpt_verify(checkpoint, e);

	if (rc)
		return rc;
	manifest = ckpt_manifest_read(checkpoint, e);
	if (!manifest)
		return e->code;
	config = config_of(manifest);
	rc = conf_from_json(config, conf, e);
	for (size_t i = 0; !rc && i < nsets; i++)
		rc = conf_set(conf, sets[i], e);
	if (!rc)
		rc = conf_validate_keys(conf, e);
	json_decref(config);
	json_decref(manifest);
	return rc;
}

enum err_code readonly_prepare(const char *checkpoint, const char *const *sets, size_t nsets, struct conf *conf, char **dir, int *lock,
                               char **from, struct err *e)
{
	enum err_code rc;

	*conf = (struct conf){ 0 };
	if (access(checkpoint, F_OK))
		return err_sys(e, ERR_NOTFOUND, "--read-only %s", checkpoint);
	rc = configure(checkpoint, sets, nsets, conf, e);
	if (rc)
		return rc;
	if (!*dir)
		*dir = mem_printf("%s-read.run", conf->name && *conf->name ? conf->name : "cluster");
	*from = path_absolute(checkpoint);
	return run_prepare(conf, *dir, lock, e);
}
