/* SPDX-License-Identifier: ISC */
#include "rundir/readonly.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "rundir/prepare.h"
#include "rundir/rundir.h"
#include "saved/saved_model.h"

enum err_code readonly_prepare_from_config(const json_t *config, const char *const *sets,
    size_t nsets, struct conf *conf, char **dir, int *lock, struct err *e)
{
	enum err_code rc = conf_from_json(config, conf, e);

	if (!rc)
		rc = conf_make_read_only(conf, e);
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

/* The checkpoint may lie in a run directory that rundir_prepare moves aside, so its path is taken
 * from an open descriptor afterwards. */
static enum err_code begin_from_checkpoint(const struct saved_about *model, const char *const *sets,
    size_t nsets, struct conf *conf, char **dir, int *lock, char **from, struct err *e)
{
	int fd = open(model->checkpoint, O_PATH | O_CLOEXEC);
	enum err_code rc;

	if (fd < 0)
		return err_sys(e, ERR_NOTFOUND, "cannot open %s", model->checkpoint);
	rc = readonly_prepare_from_config(model->config, sets, nsets, conf, dir, lock, e);
	if (!rc)
		*from = path_of_fd(fd);
	close(fd);
	return rc;
}

static enum err_code begin_from_file(struct saved_model *m, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, char **from, struct err *e)
{
	enum err_code rc = readonly_prepare_from_config(saved_model_about(m).config, sets, nsets,
	    conf, dir, lock, e);
	char *under, *checkpoints;
	json_t *config;

	if (rc)
		return rc;
	under = path_absolute(*dir);
	checkpoints = rundir_path(under, "checkpoints");
	config = conf_to_json(conf);
	rc = saved_model_write(m, config, checkpoints, from, e);
	json_decref(config);
	free(checkpoints);
	free(under);
	return rc;
}

enum err_code readonly_prepare(const char *model, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, char **from, struct err *e)
{
	struct saved_model *m;
	struct saved_about about;
	enum err_code rc = saved_model_open(model, &m, e);

	*conf = (struct conf){ 0 };
	if (rc)
		return rc;
	about = saved_model_about(m);
	rc = about.checkpoint ? begin_from_checkpoint(&about, sets, nsets, conf, dir, lock, from, e)
	                      : begin_from_file(m, sets, nsets, conf, dir, lock, from, e);
	saved_model_close(m);
	return rc;
}
