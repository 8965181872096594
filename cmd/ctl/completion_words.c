/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "catalog.h"
#include "completion.h"
#include "core/file.h"
#include "core/mem.h"
#include "ctl.h"

#define OPTIONS_MAX 64
#define FIELDS      5
/* Time limit of a program that is asked for its options; it only prints them. */
#define PROGRAM_MS 2000

/* An option, as one line of `PROGRAM [SUB] --ps-options` describes it: tab-separated fields. */
struct option {
	char *text;
	char *field[FIELDS]; /* "--set", "s", "KEY=VALUE", choices, help */
};

struct line {
	struct offer offer;
	const char *program, *sub; /* sub: "" if absent, or still being typed */
	char **word;
	int n, at;    /* at: index of the first word after the subcommand */
	int operands; /* number of operands before the word */
	struct option option[OPTIONS_MAX];
	size_t noptions;
};

/* ---- asking the programs ---- */

/* Starts `PROGRAM [SUB] QUESTION`, and returns a stream of its output, or NULL when it cannot be
 * started. close_program() ends it. */
static FILE *ask_program(const struct line *l, const char *question, pid_t *pid)
{
	char *bin = path_self_dir(NULL), *path = bin ? path_join(bin, l->program) : NULL;
	const char *argv[] = { l->program, *l->sub ? l->sub : question, *l->sub ? question : NULL,
		NULL };
	int p[2];
	FILE *f = NULL;

	*pid = -1;
	if (path && pipe(p) == 0) {
		fflush(stdout);
		*pid = fork();
		if (*pid == 0) {
			completion_limit(PROGRAM_MS);
			dup2(p[1], STDOUT_FILENO);
			close(p[0]);
			close(p[1]);
			execv(path, (char *const *)argv);
			_exit(127);
		}
		close(p[1]);
		f = fdopen(p[0], "r");
	}
	free(path);
	free(bin);
	return f;
}

static void close_program(FILE *f, pid_t pid)
{
	if (f)
		fclose(f);
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

/* Asks the program for its options, and stores those that are well-formed. */
static void load_options(struct line *l)
{
	pid_t pid;
	FILE *f = ask_program(l, "--ps-options", &pid);
	char *text = NULL;
	size_t cap = 0;

	while (f && l->noptions < OPTIONS_MAX && getline(&text, &cap, f) > 0) {
		struct option *o = &l->option[l->noptions];
		char *rest = text;
		size_t n = 0;

		text[strcspn(text, "\n")] = 0;
		for (char *field; n < FIELDS && (field = strsep(&rest, "\t")); n++)
			o->field[n] = field;
		if (n < FIELDS)
			continue;
		o->text = text;
		text = NULL;
		cap = 0;
		l->noptions++;
	}
	free(text);
	close_program(f, pid);
}

/* Offers the words that `PROGRAM --ps-complete` prints: its subcommands and options. */
static void offer_program(const struct line *l)
{
	pid_t pid;
	FILE *f = ask_program(l, "--ps-complete", &pid);
	char *text = NULL;
	size_t cap = 0;

	while (f && getline(&text, &cap, f) > 0) {
		text[strcspn(text, "\n")] = 0;
		if ((text[0] == '-') == (l->offer.word[0] == '-')) {
			const struct ctl_cmd *cmd = strcmp(l->program, "ps-ctl") == 0
			    ? ctl_find(text)
			    : NULL;

			offer(&l->offer, text, cmd ? cmd->usage.about : NULL);
		}
	}
	free(text);
	close_program(f, pid);
}

/* ---- parsing the words---------------------------------------------------------------- */

static bool takes_value(const struct option *o)
{
	return strcmp(o->field[2], "-") != 0 || strcmp(o->field[3], "-") != 0;
}

/* Finds the option with this long or short name, or returns NULL. */
static const struct option *find_option(const struct line *l, const char *word)
{
	for (size_t i = 0; i < l->noptions; i++) {
		const struct option *o = &l->option[i];

		if (strcmp(word, o->field[0]) == 0 ||
		    (word[0] == '-' && word[1] == o->field[1][0] && word[1] != '-' && !word[2]))
			return o;
	}
	return NULL;
}

static bool is_cluster_option(const char *word)
{
	return strcmp(word, "-C") == 0 || strcmp(word, "--cluster") == 0;
}

/* Finds the subcommand, and the index of the first word after it. */
static void find_subcommand(struct line *l)
{
	bool has_subs = strcmp(l->program, "ps-ctl") == 0 || strcmp(l->program, "ps-work") == 0;

	l->sub = "";
	l->at = 1;
	for (int i = 1; has_subs && i < l->n - 1; i++) {
		if (is_cluster_option(l->word[i]) && i + 1 < l->n - 1)
			l->offer.cluster = l->word[++i];
		else if (l->word[i][0] != '-') {
			l->sub = l->word[i];
			l->at = i + 1;
			return;
		}
	}
}

/* Returns the option whose value is the last word, or NULL.  Counts the operands before it. */
static const struct option *find_option_before_word(struct line *l)
{
	for (int i = l->at; i < l->n - 1; i++) {
		const struct option *o = find_option(l, l->word[i]);

		if (!o || !takes_value(o)) {
			l->operands += l->word[i][0] != '-';
			continue;
		}
		if (i + 1 == l->n - 1)
			return o;
		if (strcmp(o->field[1], "C") == 0)
			l->offer.cluster = l->word[i + 1];
		i++;
	}
	return NULL;
}

/* ---- candidates ---- */

/* Offers values for an option: its own choices, or what its name or its placeholder tells. */
static void offer_option_value(const struct line *l, const struct option *o)
{
	const char *name = o->field[0] + 2, *arg = o->field[2];

	if (strcmp(o->field[3], "-") != 0)
		completion_offer_split(&l->offer, "", o->field[3]);
	else if (strcmp(name, "role") == 0)
		completion_offer_split(&l->offer, "", CTL_ROLES);
	else if (strcmp(name, "model") == 0)
		completion_offer_catalog(&l->offer, "models");
	else if (strcmp(name, "codec") == 0)
		completion_offer_catalog(&l->offer, "codecs");
	else if (strcmp(name, "for") == 0) {
		puts(":nospace");
		completion_offer_split(&l->offer, "", "done|ready|step=|workers=|loss-below=");
	} else if (strcmp(name, "resume") == 0) {
		completion_offer_split(&l->offer, "", "auto|none|step=");
		puts(":dirs");
	} else if (strncmp(arg, "KEY=", 4) == 0)
		completion_offer_keys(&l->offer, false);
	else if (strcmp(o->field[1], "C") == 0)
		completion_offer_run_dirs(&l->offer);
	else if (strcmp(arg, "DIR") == 0 || strcmp(arg, "FOLDER") == 0)
		puts(":dirs");
	else if (strcmp(arg, "FILE") == 0 || strcmp(arg, "PATH") == 0)
		puts(":files");
}

static bool is_one_of(const char *word, const char *list)
{
	size_t n = strlen(word);

	for (const char *at = list; n && (at = strstr(at, word)) != NULL; at += n)
		if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return true;
	return false;
}

/* "server_joined|worker_joined|..." */
static const char EVENTS[] = ""
#define EVENT(kind) #kind "|"
#include "coord/event.def"
#undef EVENT
    ;

/* Offers operands of a subcommand of ps-ctl. */
static void offer_ctl_operand(const struct line *l)
{
	const struct offer *o = &l->offer;

	if (is_one_of(l->sub, "run start sweep plan doctor"))
		puts(":json");
	else if (is_one_of(l->sub, "report compare"))
		completion_offer_run_dirs(o);
	else if (is_one_of(l->sub, "runs init"))
		puts(":dirs");
	else if (strcmp(l->sub, "set") == 0)
		completion_offer_keys(o, true);
	else if (strcmp(l->sub, "scale") == 0) {
		puts(":nospace");
		completion_offer_split(o, "", "servers=|workers=");
	} else if (strcmp(l->sub, "logs") == 0)
		completion_offer_ids(o, true);
	else if (strcmp(l->sub, "drain") == 0)
		completion_offer_ids(o, false);
	else if (strcmp(l->sub, "export") == 0) {
		offer(o, "all", "the whole model");
		completion_offer_tables(o);
	} else if (strcmp(l->sub, "freeze") == 0 ||
	    (strcmp(l->sub, "table") == 0 && l->operands == 1))
		completion_offer_tables(o);
	else if (strcmp(l->sub, "table") == 0 && l->operands == 0)
		completion_offer_split(o, "", "add|grow|drop");
	else if (strcmp(l->sub, "key") == 0 && l->operands == 0)
		completion_offer_split(o, "", "add|revoke|release|list|rotate-psk");
	else if (strcmp(l->sub, "get") == 0 && l->operands == 0)
		completion_offer_split(o, "", "config");
	else if (strcmp(l->sub, "get") == 0)
		completion_offer_catalog(o, "options");
	else if (strcmp(l->sub, "events") == 0)
		completion_offer_split(o, "", EVENTS);
	else if (strcmp(l->sub, "checkpoint") == 0 && l->operands == 0)
		completion_offer_split(o, "", "take|ls|verify|diff|rm|push|fetch");
	else if (strcmp(l->sub, "object") == 0 && l->operands == 0)
		completion_offer_split(o, "", "ls|cat|put|rm");
	else if (strcmp(l->sub, "list") == 0)
		completion_offer_split(o, "", CATALOG_NAMES);
	else if (strcmp(l->sub, "show") == 0) {
		completion_offer_catalog(o, "options");
		completion_offer_catalog(o, "models");
		completion_offer_catalog(o, "optimizers");
		completion_offer_catalog(o, "codecs");
		completion_offer_catalog(o, "modes");
		completion_offer_catalog(o, "schedules");
		completion_offer_catalog(o, "readers");
	} else if (strcmp(l->sub, "completion") == 0)
		completion_offer_split(o, "", "bash|zsh|fish");
	else if (strcmp(l->sub, "help") == 0)
		completion_offer_catalog(o, "subcommands");
}

static void offer_operand(const struct line *l)
{
	static const char *const views[] = {
#define VIEW(name) #name,
#include "cmd/stat/stat.def"
#undef VIEW
	};

	if (strcmp(l->program, "ps-ctl") == 0)
		offer_ctl_operand(l);
	else if (strcmp(l->program, "ps-serve") == 0)
		puts(":json");
	else if (strcmp(l->program, "ps-work") == 0 && is_one_of(l->sub, "pull push"))
		completion_offer_tables(&l->offer);
	else if (strcmp(l->program, "ps-work") == 0)
		puts(":files");
	else if (l->operands == 0)
		for (size_t i = 0; i < CTL_COUNT(views); i++)
			offer(&l->offer, views[i], NULL);
}

/* Offers what the last word can be: a subcommand, the value of an option, an option or an
 * operand. */
static void complete_line(struct line *l)
{
	const struct option *o;
	const char *is = strchr(l->offer.word, '=');
	bool has_subs = strcmp(l->program, "ps-ctl") == 0 || strcmp(l->program, "ps-work") == 0;

	find_subcommand(l);
	if (has_subs && !*l->sub) {
		if (l->n > 2 && is_cluster_option(l->word[l->n - 2]))
			completion_offer_run_dirs(&l->offer);
		else
			offer_program(l);
		return;
	}
	load_options(l);
	o = find_option_before_word(l);
	if (o) {
		offer_option_value(l, o);
	} else if (l->offer.word[0] == '-' && !is) {
		for (size_t i = 0; i < l->noptions; i++)
			offer(&l->offer, l->option[i].field[0], l->option[i].field[4]);
	} else if (l->offer.word[0] != '-') {
		offer_operand(l);
	}
}

int completion_words(int n, char **word)
{
	struct line l = { .word = word, .n = n };

	l.program = path_basename(word[0]);
	l.offer.word = n > 1 ? word[n - 1] : "";
	if (n < 2 || !is_one_of(l.program, "ps-ctl ps-serve ps-stat ps-work"))
		return 0;
	/* Flush each line: the time limit may kill this process. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	complete_line(&l);
	for (size_t i = 0; i < l.noptions; i++)
		free(l.option[i].text);
	return 0;
}
