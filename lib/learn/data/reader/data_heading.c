/* SPDX-License-Identifier: ISC */
#include "data/reader/data_heading.h"

#include <stdint.h>

#include "core/map.h"

static size_t map_number(const struct map *m, const char *name)
{
	return (size_t)(uintptr_t)map_get(m, name);
}

static void map_set_number(struct map *m, const char *name, size_t number)
{
	map_put(m, name, (void *)(uintptr_t)number);
}

enum err_code data_heading_check(const struct stream *s, const char *const *name,
    const enum data_heading_use *use, size_t n, struct err *e)
{
	struct map *number = map_new();
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++) {
		size_t first = use[i] && *name[i] ? map_number(number, name[i]) : 0;

		if (first)
			rc = stream_fail_at(s, i + 1, e,
			    "is a second column named \"%.60s\" beside column %zu; rename one of them, "
			    "or leave one out, as ?ignore=%zu",
			    name[i], first, use[i] == DATA_HEADING_LABEL ? first : i + 1);
		else if (use[i] && *name[i])
			map_set_number(number, name[i], i + 1);
	}
	map_free(number);
	return rc;
}

enum err_code data_heading_check_known(const struct stream *s, const char *const *name, size_t n,
    const char *const *known, size_t nknown, struct err *e)
{
	struct map *left = map_new(); /* by name: how many columns may have it, plus 1 */
	enum err_code rc = ERR_OK;

	for (size_t k = 0; k < nknown; k++) {
		size_t before = known[k] ? map_number(left, known[k]) : 0;

		if (known[k])
			map_set_number(left, known[k], before ? before + 1 : 2);
	}
	for (size_t i = 0; !rc && i < n; i++) {
		size_t more = map_number(left, name[i]), first = 0;

		while (more == 1 && strcmp(name[first], name[i]) != 0)
			first++;
		if (more == 1)
			rc = stream_fail_at(s, i + 1, e,
			    "is a second column named \"%.60s\" beside column %zu, and the training "
			    "data do not tell which one is meant; rename one of them",
			    name[i], first + 1);
		else if (more)
			map_set_number(left, name[i], more - 1);
	}
	map_free(left);
	return rc;
}
