/* SPDX-License-Identifier: ISC */
#ifndef WORKER_JOB_LINE_H
#define WORKER_JOB_LINE_H

#include "worker/job.h"

/* One line for people about a job at its start: what it predicts, with which model, from how many rows and
 * columns, and which key, option or default says so. Pure. A new string. */
char *job_line(const struct job *j);

#endif
