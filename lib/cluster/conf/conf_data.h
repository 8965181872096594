/* SPDX-License-Identifier: ISC */
#ifndef CONF_DATA_H
#define CONF_DATA_H

#include "conf/conf.h"

/* The keys of a job that are options of its training data: job.label is label= of all paths of
 * job.data, so that another job.data, as by --set, keeps it. Evaluation data get them from the
 * description of the training data. Pure. */

/* The paths with the options that the keys give, as a list for conf_data_release. A path that has
 * the option itself keeps it. ERR_CONFIG: a path contradicts a key, or the value of a key is
 * wrong. */
enum err_code conf_data_paths(const struct conf_job *job, const char *const *path, size_t n,
    struct conf_strs *out, struct err *e);
void conf_data_release(struct conf_strs *paths);
/* Checks that no path of evaluation data contradicts a key that says what the columns are.
 * ERR_CONFIG. */
enum err_code conf_data_check_eval(const struct conf_job *job, struct err *e);

/* Is the option of a path, as "label", a key of a job, too? */
bool conf_data_has_key(const char *option);
/* Calls take for each option of the path that is a key of a job, and returns the path without these
 * options, as a new string. NULL, with ERR_CONFIG: the path has wrong options. */
typedef void conf_data_take_fn(void *ctx, const char *key, const char *value);
char *conf_data_move_options(const char *path, conf_data_take_fn *take, void *ctx, struct err *e);
/* Returns the path with another option, as a new string. */
char *conf_data_add_option(const char *path, const char *option, const char *value);
/* Returns the options of the path of training data in `before`, as "?label=ok&ignore=z" in a new
 * string, that `now` lacks because its path is another one without options. NULL: it lacks none.
 * Options that tell which bytes are read, and those that are keys of `now`, do not count. */
char *conf_data_lost_options(const struct conf_job *before, const struct conf_job *now);

#endif
