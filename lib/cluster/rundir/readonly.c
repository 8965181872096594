/* SPDX-License-Identifier: ISC */
#include "rundir/readonly.h"

#include "core/mem.h"
#include "rundir/prepare.h"

enum err_code readonly_prepare(const json_t *config, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, struct err *e)
{
	enum err_code rc = conf_from_json(config, conf, e);

	if (!rc)
		rc = conf_make_read_only(conf, e);
	for (size_t i = 0; !rc && i < nsets; i++)
		rc = conf_set(conf, sets[i], e);
	if (!rc)
		rc = conf_validate_keys(conf, e);
	if (!rc && conf->servers > 1)
		rc = err_set(e, ERR_CONFIG,
		    "servers: a read-only cluster must be one server, got %lld",
		    (long long)conf->servers);
	if (rc)
		return rc;
	if (!*dir)
		*dir = mem_printf("%s-read.run",
		    conf->name && *conf->name ? conf->name : "cluster");
	return rundir_prepare(conf, *dir, lock, e);
}
