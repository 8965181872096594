/* SPDX-License-Identifier: ISC */
#ifndef CONF_DATA_H
#define CONF_DATA_H

#include "conf/conf.h"

/* The keys of a job that are options of its training data: job.label is label= of all paths of job.data, so
 * that another job.data, as by --set, keeps it. Evaluation data get them from the description of the
 * training data. Pure. */

/* The paths with the options that the keys give, as a list for conf_data_release. A path that has the option
 * itself keeps it. ERR_CONFIG: a path contradicts a key, or the value of a key is wrong. */
enum err_code conf_data_paths(const struct conf_job *job, const char *const *path, size_t n,
    struct conf_strs *out, struct err *e);
void conf_data_release(struct conf_strs *paths);
/* Checks that no path of evaluation data contradicts a key that says what the columns are. ERR_CONFIG. */
enum err_code conf_data_check_eval(const struct conf_job *job, struct err *e);

#endif
