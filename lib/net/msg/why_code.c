/* SPDX-License-Identifier: ISC */
#include "msg/why_code.h"

#include <string.h>

static const struct {
	const char *name;
	bool harmless;
} rows[WHY_CODES] = {
#define WHY(id, name, harmless) { name, harmless },
#include "msg/why.def"
#undef WHY
};

const char *why_code_name(enum why_code code)
{
	return code < WHY_CODES ? rows[code].name : "";
}

enum why_code why_code_by_name(const char *name)
{
	unsigned i = 0;

	while (i < WHY_CODES && strcmp(name, rows[i].name) != 0)
		i++;
	return (enum why_code)i;
}

bool why_code_is_harmless(enum why_code code)
{
	return code < WHY_CODES && rows[code].harmless;
}
