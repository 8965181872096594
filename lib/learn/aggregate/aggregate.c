/* SPDX-License-Identifier: ISC */
#include "aggregate/aggregate.h"

#include <stdio.h>
#include <string.h>

static const struct aggregate_ops *const all[] = {
#define AGGREGATOR(name, form) &aggregate_##name,
#include "aggregate/aggregate.def"
#undef AGGREGATOR
};
#define COUNT (sizeof all / sizeof *all)

/* Fails with the list of all aggregators. */
static enum err_code refuse_aggregator(const char *text, struct err *e)
{
	char list[300] = "";
	size_t len = 0;

	for (size_t i = 0; i < COUNT && len < sizeof list; i++)
		len += (size_t)snprintf(list + len, sizeof list - len, "%s%s",
		    !i                  ? ""
		        : i + 1 < COUNT ? ", "
		                        : ", or ",
		    all[i]->accepts);
	return err_set(e, ERR_CONFIG, "must be %s, got \"%.80s\"", list, text);
}

enum err_code aggregate_parse(const char *text, struct aggregate *out, struct err *e)
{
	size_t len = strcspn(text, ":");

	for (size_t i = 0; i < COUNT; i++) {
		struct aggregate a = { .ops = all[i] };

		if (strlen(a.ops->name) != len || memcmp(text, a.ops->name, len) != 0 ||
		    !a.ops->parse(text[len] ? text + len + 1 : NULL, &a))
			continue;
		*out = a;
		return ERR_OK;
	}
	return refuse_aggregator(text, e);
}

bool aggregate_setting_compares(const char *text)
{
	struct aggregate a;

	return aggregate_parse(text, &a, NULL) == ERR_OK && a.ops->compares;
}
