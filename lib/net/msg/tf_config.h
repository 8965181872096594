/* SPDX-License-Identifier: ISC */
#ifndef MSG_TF_CONFIG_H
#define MSG_TF_CONFIG_H

/* The environment variable TF_CONFIG, by which launchers for TensorFlow tell a process its place:
 * {"cluster":{"chief":[...],"worker":[...],"ps":[...]},"task":{"type":"worker","index":0}}. */
#include <stdint.h>

#include "core/json.h"

struct tf_config {
	const char *type; /* of this process's task, borrowed; "": it is not told */
	int64_t index;    /* of the task among the tasks of its type; -1: it is not told */
	int64_t chiefs, workers, servers; /* the numbers of tasks */
};

/* A member of a wrong type counts as absent. json may be NULL. Any thread. */
void tf_config_decode(const json_t *json, struct tf_config *out);

#endif
