/* SPDX-License-Identifier: ISC */
#include "conf/conf_slow.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"

#define SECONDS_MAX 1e6
#define TIMES_MAX   1e6
#define RANK_MAX    1000000

/* Parses "xTIMES" at x. A worker cannot be made faster. */
static bool parse_times(const char *x, double *times)
{
	return *x == 'x' && num_double(x + 1, times) && *times >= 1 && *times <= TIMES_MAX;
}

/* Parses "worker-RANKxTIMES", which it changes. */
static bool parse_worker(char *part, int64_t *rank, double *times)
{
	char *x = strchr(part + strlen("worker-"), 'x');
	bool good = x && parse_times(x, times);

	if (good)
		*x = '\0';
	return good && num_int(part + strlen("worker-"), 0, RANK_MAX, rank);
}

/* Parses "N%xTIMES", which it changes. */
static bool parse_chance(char *part, struct conf_slow *out)
{
	char *percent = strchr(part, '%');

	if (!parse_times(percent + 1, &out->times))
		return false;
	*percent = '\0';
	if (!num_double(part, &out->chance) || out->chance < 0 || out->chance > 100)
		return false;
	out->chance /= 100;
	return true;
}

/* Parses one part, which it changes. *last becomes the highest rank so far. */
static bool parse_part(char *part, uint32_t rank, struct conf_slow *out, int64_t *last)
{
	int64_t of, ns;
	double times;

	if (strncmp(part, "worker-", 7) == 0) {
		if (!parse_worker(part, &of, &times))
			return false;
		*last = of > *last ? of : *last;
		out->always = of == rank ? times : out->always;
		return true;
	}
	if (strchr(part, '%'))
		return out->chance <= 0 && parse_chance(part, out);
	if (out->seconds > 0 || !num_duration(part, &ns) || ns <= 0 ||
	    (double)ns / 1e9 > SECONDS_MAX)
		return false;
	out->seconds = (double)ns / 1e9;
	return true;
}

static bool parse_text(const char *text, uint32_t rank, struct conf_slow *out, int64_t *last)
{
	char *copy = mem_strdup(text), *rest = copy, *part;
	bool good = true;

	*out = (struct conf_slow){ .times = 1, .always = 1 };
	*last = -1;
	if (strcmp(text, "none") != 0)
		while (good && (part = strsep(&rest, ",")))
			good = parse_part(part, rank, out, last);
	free(copy);
	return good;
}

enum err_code conf_slow_parse(const char *text, uint32_t rank, struct conf_slow *out, struct err *e)
{
	int64_t last;

	if (parse_text(text, rank, out, &last))
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "must be none, or parts such as 20ms (the least time), 5%%x7 (7 times as long with a "
	    "chance of 5 %%) and worker-1x3 (3 times as long), separated by commas; got \"%.80s\"",
	    text);
}

int64_t conf_slow_last_rank(const char *text)
{
	struct conf_slow ignored;
	int64_t last;

	return parse_text(text, 0, &ignored, &last) ? last : -1;
}
