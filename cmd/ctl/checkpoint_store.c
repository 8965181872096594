#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "checkpoint.h"
#include "ckpt/store.h"
#include "conf/conf.h"
#include "ctl.h"
#include "launch/rundir.h"
#include "object/uri.h"
#include "store.h"

#define CONFIG_MAX (1u << 20)

static int end(struct object_client *c, enum err_code rc, const struct err *e)
{
	object_client_free(c);
	return rc == ERR_OK ? 0 : ctl_fail(e);
}

/* AT as it is written, but for slashes at its end: fresh. */
static char *place(const char *at)
{
	size_t n = strlen(at);

	while (n > 0 && at[n - 1] == '/')
		n--;
	return mem_printf("%.*s", (int)n, at);
}

int checkpoint_ls_store(const struct checkpoint_options *o, const char *at)
{
	struct object_client *c = NULL;
	struct ckpt_entry *list = NULL;
	struct err e = { 0 };
	char *where = place(at);
	size_t n = 0;
	enum err_code rc = uri_is_s3(at) ? store_open(o->timeout, &c, &e) :
	                   err_set(&e, ERR_USAGE, "ls takes s3://BUCKET/PREFIX/NAME, or nothing more; got \"%s\"", at);

	if (rc == ERR_OK)
		rc = ckpt_store_list(c, where, &list, &n, &e);
	if (rc == ERR_OK)
		checkpoint_print(o, list, n);
	ckpt_list_free(list, n);
	free(where);
	return end(c, rc, &e);
}

int checkpoint_rm_store(const struct checkpoint_options *o, int n, char **names)
{
	struct object_client *c = NULL;
	struct err e = { 0 };
	enum err_code rc = store_open(o->timeout, &c, &e);

	for (int i = 0; rc == ERR_OK && i < n; i++) {
		char *name = place(names[i]);

		rc = ckpt_store_remove(c, name, &e);
		free(name);
	}
	return end(c, rc, &e);
}

/* ---- push -------------------------------------------------------------------------------- */

static enum err_code config_of(const struct checkpoint_options *o, struct conf *conf, struct err *e)
{
	char *run = NULL, *path = NULL;
	json_t *j = NULL;
	enum err_code rc = ctl_run_dir(o->dir, &run, e);

	if (rc == ERR_OK) {
		path = rundir_path(run, "cluster.json");
		j = json_parse_file(path, CONFIG_MAX, e);
		rc = j ? conf_from_json(j, conf, e) : e->code;
	}
	json_decref(j);
	free(path);
	free(run);
	return rc;
}

static void stored(void *ctx, const char *name, const struct ckpt_entry *entry)
{
	const struct checkpoint_options *o = ctx;
	json_t *line;

	if (o->json) {
		line = json_pack("{s:I, s:s, s:I}", "step", (json_int_t)entry->step, "path", name, "size_bytes",
		                 (json_int_t)entry->bytes);
		ctl_line("stored", line);
		json_decref(line);
	} else {
		puts(name);
		fflush(stdout);
	}
}

int checkpoint_push(const struct checkpoint_options *o, int nargs, char **args)
{
	struct object_client *c = NULL;
	char *dir = NULL, *at = NULL;
	struct err e = { 0 };
	struct conf conf;
	enum err_code rc = config_of(o, &conf, &e);

	if (rc != ERR_OK)
		return ctl_fail(&e);
	at = nargs > 0 ? place(args[0]) : conf_store(&conf);
	dir = checkpoint_dir(o, &e);
	if (!dir)
		rc = e.code;
	else if (!at)
		rc = err_set(&e, ERR_CONFIG, "where to? checkpoint_to is none: name s3://BUCKET/PREFIX/NAME");
	if (rc == ERR_OK)
		rc = store_open(o->timeout, &c, &e);
	if (rc == ERR_OK)
		rc = ckpt_store_push(c, dir, at, &(struct ckpt_keep){ .last = (size_t)conf.keep_last, .best = (size_t)conf.keep_best,
		                     .every = (uint64_t)conf.keep_every }, stored, (void *)o, &e);
	free(at);
	free(dir);
	conf_release(&conf);
	return end(c, rc, &e);
}

/* ---- fetch ------------------------------------------------------------------------------- */

static void passed_over(void *ctx, const char *path, const char *why)
{
	(void)ctx;
	fprintf(stderr, "ps-ctl: warning: %s is passed over: %s\n", path, why);
}

static void begins(void *ctx, const char *name, uint64_t bytes)
{
	char size[16];

	(void)ctx;
	num_human((double)bytes, size);
	fprintf(stderr, "ps-ctl: note: fetching %s (%s)\n", name, size);
}

/* A cluster that lives makes checkpoints there: nobody else may. */
static char *dir_of_run(const struct checkpoint_options *o, struct err *e)
{
	char *run = NULL, *dir = NULL;

	if (ctl_run_dir(o->dir, &run, e) == ERR_OK) {
		if (rundir_is_alive(run, NULL))
			err_set(e, ERR_EXISTS, "%s is running, and makes checkpoints of its own there: name another directory", run);
		else
			dir = rundir_path(run, "checkpoints");
	}
	free(run);
	return dir;
}

int checkpoint_fetch(const struct checkpoint_options *o, int nargs, char **args)
{
	struct object_client *c = NULL;
	char *path = NULL, *dir;
	struct err e = { 0 };
	enum err_code rc;

	dir = nargs > 1 ? mem_strdup(args[1]) : dir_of_run(o, &e);
	rc = dir ? store_open(o->timeout, &c, &e) : e.code;
	if (rc == ERR_OK)
		rc = ckpt_store_fetch(c, args[0], dir, o->newer, &(struct ckpt_fetching){ passed_over, begins, NULL }, &path, &e);
	if (path)
		puts(path);
	free(path);
	free(dir);
	return end(c, rc, &e);
}
