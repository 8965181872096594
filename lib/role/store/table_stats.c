/* SPDX-License-Identifier: ISC */
#include "store/table_stats.h"

/* Bounds the size of a heartbeat. */
#define TABLES_MAX 256

json_t *table_stats_json(struct shard *s)
{
	json_t *list = json_array();

	for (uint32_t t = 0;
	     t < SHARD_TABLES && shard_table(s, (uint16_t)t) && json_array_size(list) < TABLES_MAX;
	     t++) {
		struct table_stats x;
		json_t *o;

		if (!shard_table(s, (uint16_t)t)->sparse || !shard_table_stats(s, (uint16_t)t, &x))
			continue;
		o = json_pack("{s:i, s:I, s:I}", "id", (int)t, "rows", (json_int_t)x.rows, "bytes",
		    (json_int_t)x.bytes);
		for (unsigned k = 0; x.counted && k < LIFE_COUNTS; k++)
			json_object_set_new(o, row_life_counter_name[k],
			    json_integer((json_int_t)x.count[k]));
		json_array_append_new(list, o);
	}
	return list;
}
