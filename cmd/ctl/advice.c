/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/conf_key.h"
#include "ctl.h"

/* Advice about arguments that a subcommand does not know: keys of the cluster file that were given as
 * options or operands, and clusters that were given as operands. */

/* The key that a word names or means; NULL: none. */
static const struct conf_key *key_of_word(const char *word, size_t n)
{
	char name[64];
	const struct conf_key *key;

	if (n == 0 || n >= sizeof name)
		return NULL;
	for (size_t i = 0; i < n; i++)
		name[i] = word[i] == '-' ? '_' : word[i];
	name[n] = 0;
	key = conf_key_meant(name);
	return key ? key : conf_key_find(name, NULL);
}

static bool has_option(const struct opt_spec *spec, const char *name)
{
	for (size_t i = 0; i < spec->nopts; i++)
		if (strcmp(spec->opts[i].name, name) == 0)
			return true;
	return false;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The name of a key as --set takes it: without "job.". */
static const char *short_name(const struct conf_key *key)
{
	return strncmp(key->path, "job.", 4) == 0 ? key->path + 4 : key->path;
}

static bool advise_cluster(const char *word, char out[static OPT_ADVICE])
{
	char run[OPT_ADVICE / 2];

	if (snprintf(run, sizeof run, "%s.run", word) >= (int)sizeof run)
		return false;
	if (is_directory(run))
		snprintf(out, OPT_ADVICE, "did you mean \"-C %s\"?", run);
	else if (is_directory(word))
		snprintf(out, OPT_ADVICE, "did you mean \"-C %s\"?", word);
	else
		return false;
	return true;
}

bool ctl_advise(const struct opt_spec *spec, const char *arg, const char *value,
    char out[static OPT_ADVICE])
{
	const char *word = arg + strspn(arg, "-");
	const char *eq = strchr(word, '=');
	const struct conf_key *key;

	if (word == arg && !eq)
		return has_option(spec, "cluster") && advise_cluster(arg, out);
	key = key_of_word(word, eq ? (size_t)(eq - word) : strlen(word));
	if (!key)
		return false;
	value = eq ? eq + 1 : value ? value : "VALUE";
	if (has_option(spec, "grid") && strstr(value, "..")) {
		snprintf(out, OPT_ADVICE, "did you mean \"--range %.40s=%.60s --random N\"?",
		    short_name(key), value);
		return true;
	}
	if (has_option(spec, "grid") && strchr(value, ',')) {
		snprintf(out, OPT_ADVICE, "did you mean \"--grid %.40s=%.60s\"?", short_name(key),
		    value);
		return true;
	}
	snprintf(out, OPT_ADVICE,
	    has_option(spec, "set")
	        ? "did you mean \"--set %.40s=%.60s\"?"
	        : "\"ps-ctl set %.40s=%.60s\" changes this key of a running cluster",
	    short_name(key), value);
	return true;
}
