/* SPDX-License-Identifier: ISC */
#include "model/class_weight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"

bool class_weight_counts(const char *text)
{
	return strcmp(text, "balanced") == 0;
}

/* The next "NAME:WEIGHT" of a list, which is moved past it; the last colon ends the name. Cuts the
 * list's text into pieces. False: it is malformed. */
static bool take_pair(char **list, char **name, double *weight)
{
	char *pair = strsep(list, ","), *colon = strrchr(pair, ':');

	if (colon == NULL || colon == pair)
		return false;
	*colon = '\0';
	*name = pair;
	return num_double(colon + 1, weight) && *weight >= 0 && isfinite((float)*weight);
}

static enum err_code refuse_form(const char *text, struct err *e)
{
	return err_set(e, ERR_CONFIG,
	    "job.class_weight: must be none, balanced or CLASS:WEIGHT,..., with weights of at least 0, "
	    "got \"%.80s\"",
	    text);
}

enum err_code class_weight_check(const char *text, struct err *e)
{
	char *copy, *list, *name;
	double weight;
	bool good = true;

	if (strcmp(text, "none") == 0 || class_weight_counts(text))
		return ERR_OK;
	copy = list = mem_strdup(text);
	while (good && list != NULL)
		good = take_pair(&list, &name, &weight);
	free(copy);
	return good ? ERR_OK : refuse_form(text, e);
}

static void balance_classes(const uint64_t *count, size_t classes, float *out)
{
	double all = 0;

	for (size_t i = 0; i < classes; i++)
		all += (double)count[i];
	for (size_t i = 0; i < classes; i++)
		if (count[i] > 0)
			out[i] = (float)(all / (double)classes / (double)count[i]);
}

static enum err_code set_named(const char *text, char *const *name, size_t classes, float *out,
    struct err *e)
{
	char *copy = mem_strdup(text), *list = copy, *of;
	enum err_code rc = ERR_OK;
	double weight;

	while (!rc && list != NULL) {
		size_t i = 0;

		if (!take_pair(&list, &of, &weight)) {
			rc = refuse_form(text, e);
			break;
		}
		while (i < classes && strcmp(name[i], of) != 0)
			i++;
		if (i == classes)
			rc = err_set(e, ERR_CONFIG,
			    "job.class_weight: the data have no class \"%.60s\"", of);
		else
			out[i] = (float)weight;
	}
	free(copy);
	return rc;
}

enum err_code class_weight_set(const char *text, char *const *name, const uint64_t *count,
    size_t classes, float *out, struct err *e)
{
	for (size_t i = 0; i < classes; i++)
		out[i] = 1;
	if (strcmp(text, "none") == 0)
		return ERR_OK;
	if (!class_weight_counts(text))
		return set_named(text, name, classes, out, e);
	balance_classes(count, classes, out);
	return ERR_OK;
}
