/* SPDX-License-Identifier: ISC */
#include "rundir/remote_checkpoint.h"

#include <string.h>

#include "ckpt/read.h"
#include "conf/conf_key.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/helper.h"
#include "msg/manifest.h"

static char *format_timeout(int64_t deadline)
{
	return mem_printf("%lldms", (long long)(deadline / NSEC_PER_MSEC));
}

enum err_code remote_checkpoint_check_unused(const struct conf *conf, struct err *e)
{
	char *at = conf_checkpoint_uri(conf), *timeout = format_timeout(conf->deadline);
	const char *args[] = { "checkpoint", "ls", at, "--json", "--timeout", timeout, NULL };
	struct buf text = BUF_INIT;
	enum err_code rc = at ? helper_run(args, NULL, &text, e) : ERR_OK;

	if (rc && e)
		err_prefix(e, "checkpoint_to");
	else if (!rc && text.len > 0)
		rc = err_set(e, ERR_CONFIG,
		    "checkpoint_to: %s has checkpoints of an earlier run: --resume auto resumes "
		    "that run, --resume %s begins a new run from them; otherwise give this run "
		    "another name or checkpoint_to, or remove them",
		    at, at);
	buf_release(&text);
	free(timeout);
	free(at);
	return rc;
}

enum err_code remote_checkpoint_download(const char *from, const char *dir, bool newer,
    int64_t deadline, char **path, struct err *e)
{
	char *timeout = format_timeout(deadline);
	const char *args[] = { "checkpoint", "fetch", from, dir, "--timeout", timeout,
		newer ? "--newer" : NULL, NULL };
	struct buf text = BUF_INIT;
	enum err_code rc = helper_run(args, NULL, &text, e);

	*path = NULL;
	if (!rc && text.len > 1)
		*path = mem_printf("%.*s", (int)text.len - 1, (const char *)text.data);
	buf_release(&text);
	free(timeout);
	return rc;
}

/* List the keys that differ and may not change while a job runs, "servers, job.batch"; NULL:
 * none. */
static char *list_changed_fixed_keys(const struct conf *a, const struct conf *b)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		json_t *x = conf_value_json(&k[i], a), *y = conf_value_json(&k[i], b);

		if (!k[i].live && (x || y) && !(x && y && json_equal(x, y)))
			buf_printf(&out, "%s%s", out.len ? ", " : "", k[i].path);
		json_decref(x);
		json_decref(y);
	}
	return (char *)out.data;
}

enum err_code remote_checkpoint_check_config(const struct conf *conf, const char *path,
    const char *from, struct err *e)
{
	struct ckpt_reader *r;
	struct conf made;
	char *keys = NULL;
	enum err_code rc = ckpt_open(path, &r, e);

	if (rc)
		return rc;
	rc = conf_from_json(ckpt_manifest(r)->config, &made, e);
	ckpt_close(r);
	if (rc)
		return rc;
	keys = list_changed_fixed_keys(conf, &made);
	conf_release(&made);
	if (keys)
		rc = err_set(e, ERR_CONFIG,
		    "the run with the checkpoints at %s had other values of %s: give the same "
		    "values, or --resume %s to begin a new run from them",
		    from, keys, from);
	free(keys);
	return rc;
}
