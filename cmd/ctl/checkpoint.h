#ifndef CTL_CHECKPOINT_H
#define CTL_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ckpt/dirs.h"

/* Shared by checkpoint.c, which has the subcommand, and checkpoint_store.c: what object stores have. */
struct checkpoint_options {
	const char *dir;
	int64_t timeout;
	bool json, newer;
};

/* RUN/checkpoints, of a cluster that lives or not: fresh; NULL and e when no run is meant. */
char *checkpoint_dir(const struct checkpoint_options *o, struct err *e);
/* The lines of ls. */
void checkpoint_print(const struct checkpoint_options *o, const struct ckpt_entry *list, size_t n);

/* Actions: the exit code. */
int checkpoint_ls_store(const struct checkpoint_options *o, const char *at);
int checkpoint_rm_store(const struct checkpoint_options *o, int n, char **names);
int checkpoint_push(const struct checkpoint_options *o, int nargs, char **args);
int checkpoint_fetch(const struct checkpoint_options *o, int nargs, char **args);

#endif
