/* SPDX-License-Identifier: ISC */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "catalog.h"
#include "completion.h"
#include "conf/conf_key.h"
#include "core/json.h"
#include "core/mem.h"
#include "ctl.h"
#include "model/model.h"

void offer(const struct offer *o, const char *candidate, const char *help)
{
	/* Names of files and tables may contain control characters, which would break the line or the
	 * terminal. */
	for (const char *p = candidate; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return;
	if (*candidate && strncmp(candidate, o->word, strlen(o->word)) == 0)
		printf("%s\t%s\n", candidate, help ? help : "");
}

/* choices is like "bsp|ssp:S|asp" or "none|backup,codec".  Of "ssp:S" only "ssp:" is offered: the
 * user types the rest. */
void completion_offer_split(const struct offer *o, const char *prefix, const char *choices)
{
	while (*choices) {
		size_t n = strcspn(choices, "|,"), fixed = strcspn(choices, ":|,");
		char *candidate = mem_printf("%s%.*s%s", prefix, (int)fixed, choices,
		    fixed < n ? ":" : "");

		if (fixed < n)
			puts(":nospace");
		offer(o, candidate, NULL);
		free(candidate);
		choices += n + (choices[n] != 0);
	}
}

void completion_offer_catalog(const struct offer *o, const char *plural)
{
	const struct catalog *c = catalog_find(plural);
	json_t *list = c ? c->list() : NULL;
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
		offer(o, json_str(item, "name", ""), json_str(item, "help", NULL));
	json_decref(list);
}

/* ---- keys ---- */

/* Offers the values of a key whose "=" is typed.  Of a list, only the part after the last comma is
 * completed. */
static void offer_value(const struct offer *o)
{
	const char *is = strchr(o->word, '='), *comma = strrchr(is, ',');
	char *name = mem_printf("%.*s", (int)(is - o->word), o->word);
	char *prefix = mem_printf("%.*s", (int)((comma ? comma : is) + 1 - o->word), o->word);
	const struct conf_key *k = conf_key_find(name, NULL);

	if (k && strcmp(k->path, "job.model") == 0) {
		for (size_t i = 0; model_info_at(i); i++) {
			char *candidate = mem_printf("%s%s", prefix, model_info_at(i)->name);

			offer(o, candidate, model_info_at(i)->help);
			free(candidate);
		}
	} else if (k && (k->choices || k->type == CONF_BOOL)) {
		completion_offer_split(o, prefix, k->choices ? k->choices : "true|false");
	} else if (k && k->type == CONF_PATHS) {
		puts(":files");
	}
	free(name);
	free(prefix);
}

void completion_offer_keys(const struct offer *o, bool live_only)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	if (strchr(o->word, '=')) {
		offer_value(o);
		return;
	}
	puts(":nospace");
	for (size_t i = 0; i < n; i++) {
		char *whole = mem_printf("%s=", k[i].path);

		if (k[i].live || !live_only) {
			offer(o, whole, k[i].help);
			if (strncmp(whole, "job.", 4) == 0)
				offer(o, whole + 4, k[i].help);
		}
		free(whole);
	}
}

/* ---- run directories, and members of the running cluster ---- */

static int is_run_entry(const struct dirent *d)
{
	const char *at = strstr(d->d_name, ".run");

	return d->d_name[0] != '.' && at && (!at[4] || at[4] == '.');
}

void completion_offer_run_dirs(const struct offer *o)
{
	const char *slash = strrchr(o->word, '/');
	char *folder = slash ? mem_printf("%.*s", (int)(slash + 1 - o->word), o->word)
	                     : mem_strdup("");
	struct dirent **entry;
	int n = scandir(*folder ? folder : ".", &entry, is_run_entry, versionsort);

	puts(":dirs");
	for (int i = 0; i < n; i++) {
		char *path = mem_printf("%s%s", folder, entry[i]->d_name);

		offer(o, path, "a run");
		free(path);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
	free(folder);
}

void completion_limit(int ms)
{
	struct itimerval at = { .it_value = { ms / 1000, ms % 1000 * 1000 } };
	sigset_t set;

	signal(SIGALRM, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	setitimer(ITIMER_REAL, &at, NULL);
}

/* Returns the running cluster's answer to GET path, or NULL.  Starts the time limit of this
 * process. */
static json_t *get_for_completion(const struct offer *o, const char *path)
{
	struct http_client *client = NULL;
	json_t *answer = NULL;

	/* Print the candidates found so far: the time limit may kill this process. */
	fflush(stdout);
	completion_limit(COMPLETION_MS);
	if (ctl_reach(o->cluster, &client, NULL) == ERR_OK)
		http_call(client, "GET", path, NULL, COMPLETION_MS * NSEC_PER_MSEC, NULL, &answer,
		    NULL);
	http_client_free(client);
	return answer;
}

static void offer_members(const struct offer *o, const char *path, const char *list,
    const char *key, const char *about)
{
	json_t *answer = get_for_completion(o, path);
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(answer, list), i, item)
		offer(o, json_str(item, key, ""), about ? json_str(item, about, NULL) : NULL);
	json_decref(answer);
}

void completion_offer_ids(const struct offer *o, bool workers)
{
	offer_members(o, "/v1/servers", "servers", "id", "state");
	if (workers)
		offer_members(o, "/v1/workers", "workers", "id", "state");
}

void completion_offer_tables(const struct offer *o)
{
	offer_members(o, "/v1/tables", "tables", "id", NULL);
}
