/* SPDX-License-Identifier: ISC */
#ifndef CTL_CHECKPOINT_H
#define CTL_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/dirs.h"
#include "core/err.h"

/* ps-ctl checkpoint. checkpoint.c has the subcommand and its actions on the run directory;
 * checkpoint_store.c has the actions on object stores. Both share these options. */
struct checkpoint_options {
	const char *dir; /* as -C gives it; NULL: found as for other subcommands */
	int64_t timeout; /* of requests, ns */
	bool json, newer, stop;
};

/* Returns the path of RUN/checkpoints, to be freed, whether the cluster runs or not. Returns NULL
 * and sets e when the options name no run. */
char *checkpoint_dir(const struct checkpoint_options *o, struct err *e);
/* Prints a list of checkpoints as ps-ctl checkpoint ls does: a table, or JSON Lines. */
void checkpoint_print(const struct checkpoint_options *o, const struct ckpt_entry *list, size_t n);

/* The actions on object stores. Each returns the program's exit code. `at` and the names are
 * s3://BUCKET/PREFIX/NAME; push and fetch find their operands in args. */
int checkpoint_ls_store(const struct checkpoint_options *o, const char *at);
int checkpoint_rm_store(const struct checkpoint_options *o, int n, char **names);
int checkpoint_push(const struct checkpoint_options *o, int nargs, char **args);
int checkpoint_fetch(const struct checkpoint_options *o, int nargs, char **args);

#endif
