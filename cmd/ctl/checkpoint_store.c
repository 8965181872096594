/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "ckpt/store.h"
#include "conf/conf.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "format/uri.h"
#include "rundir/rundir.h"
#include "store.h"

#define CONFIG_MAX (1u << 20)

static int finish_store_action(struct object_client *c, enum err_code rc, const struct err *e)
{
	object_client_free(c);
	return rc == ERR_OK ? 0 : ctl_fail(e);
}

/* Returns a copy of an object store's name without trailing slashes. */
static char *strip_slashes(const char *at)
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
	char *where = strip_slashes(at);
	size_t n = 0;
	enum err_code rc = uri_is_s3(at)
	    ? store_open(o->timeout, &c, &e)
	    : err_set(&e, ERR_USAGE, "ls accepts only s3://BUCKET/PREFIX/NAME, got \"%s\"", at);

	if (rc == ERR_OK)
		rc = ckpt_store_list(c, where, &list, &n, &e);
	if (rc == ERR_OK)
		checkpoint_print(o, list, n);
	ckpt_list_free(list, n);
	free(where);
	return finish_store_action(c, rc, &e);
}

int checkpoint_rm_store(const struct checkpoint_options *o, int n, char **names)
{
	struct object_client *c = NULL;
	struct err e = { 0 };
	enum err_code rc = store_open(o->timeout, &c, &e);

	for (int i = 0; rc == ERR_OK && i < n; i++) {
		char *name = strip_slashes(names[i]);

		rc = ckpt_store_remove(c, name, &e);
		free(name);
	}
	return finish_store_action(c, rc, &e);
}

/* ---- push ---- */

/* Reads the configuration that the run keeps in its directory, so the cluster need not be
 * running. */
static enum err_code load_run_config(const struct checkpoint_options *o, struct conf *conf,
    struct err *e)
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

static void print_stored(void *ctx, const char *name, const struct ckpt_entry *entry)
{
	const struct checkpoint_options *o = ctx;
	json_t *line;

	if (o->json) {
		line = json_pack("{s:I, s:s, s:I}", "step", (json_int_t)entry->step, "path", name,
		    "size_bytes", (json_int_t)entry->bytes);
		json_print_event("stored", line);
		json_decref(line);
	} else {
		puts(name);
		fflush(stdout);
	}
}

/* The place is the operand, else checkpoint_to of the run's configuration. The settings keep_last,
 * keep_best and keep_every of that configuration decide which checkpoints stay in the store, as for
 * local ones. */
int checkpoint_push(const struct checkpoint_options *o, int nargs, char **args)
{
	struct object_client *c = NULL;
	char *dir = NULL, *at = NULL;
	struct err e = { 0 };
	struct conf conf;
	enum err_code rc = load_run_config(o, &conf, &e);

	if (rc != ERR_OK)
		return ctl_fail(&e);
	at = nargs > 0 ? strip_slashes(args[0]) : conf_checkpoint_uri(&conf);
	dir = checkpoint_dir(o, &e);
	if (!dir)
		rc = e.code;
	else if (!at)
		rc = err_set(&e, ERR_CONFIG,
		    "the destination is missing, as checkpoint_to is none: give s3://BUCKET/PREFIX/NAME");
	if (rc == ERR_OK)
		rc = store_open(o->timeout, &c, &e);
	if (rc == ERR_OK)
		rc = ckpt_store_push(c, dir, at,
		    &(struct ckpt_keep){ .last = (size_t)conf.keep_last,
		        .best = (size_t)conf.keep_best,
		        .every = (uint64_t)conf.keep_every },
		    print_stored, (void *)o, &e);
	free(at);
	free(dir);
	conf_release(&conf);
	return finish_store_action(c, rc, &e);
}

/* ---- fetch ---- */

static void warn_of_skipped(void *ctx, const char *path, const char *why)
{
	(void)ctx;
	fprintf(stderr, "ps-ctl: warning: %s was skipped: %s\n", path, why);
}

static void note_fetching(void *ctx, const char *name, uint64_t bytes)
{
	char size[16];

	(void)ctx;
	num_human((double)bytes, size);
	fprintf(stderr, "ps-ctl: note: fetching %s (%s)\n", name, size);
}

/* Returns RUN/checkpoints, to be freed. Fails for a running cluster, which writes checkpoints
 * there itself: a fetched one could collide with its next one. */
static char *fetch_destination(const struct checkpoint_options *o, struct err *e)
{
	char *run = NULL, *dir = NULL;

	if (ctl_run_dir(o->dir, &run, e) == ERR_OK) {
		if (rundir_is_alive(run, NULL))
			err_set(e, ERR_EXISTS,
			    "%s is running and writes its checkpoints there: name another directory",
			    run);
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

	dir = nargs > 1 ? mem_strdup(args[1]) : fetch_destination(o, &e);
	rc = dir ? store_open(o->timeout, &c, &e) : e.code;
	if (rc == ERR_OK)
		rc = ckpt_store_fetch(c, args[0], dir, o->newer,
		    &(struct ckpt_fetching){ warn_of_skipped, note_fetching, NULL }, &path, &e);
	if (path)
		puts(path);
	free(path);
	free(dir);
	return finish_store_action(c, rc, &e);
}
