/* SPDX-License-Identifier: ISC */
#include "msg/tf_config.h"

static int64_t count_tasks(const json_t *cluster, const char *type)
{
	return (int64_t)json_array_size(json_object_get(cluster, type));
}

void tf_config_decode(const json_t *json, struct tf_config *out)
{
	const json_t *cluster = json_object_get(json, "cluster"),
	             *task = json_object_get(json, "task");

	*out = (struct tf_config){ .type = json_str(task, "type", ""),
		.index = json_int(task, "index", -1),
		.chiefs = count_tasks(cluster, "chief"),
		.workers = count_tasks(cluster, "worker"),
		.servers = count_tasks(cluster, "ps") };
}
