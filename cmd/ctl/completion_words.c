/* SPDX-License-Identifier: ISC */
#include "completion.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "catalog.h"
#include "conf/conf_key.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "ctl.h"
#include "metric/metrics.h"

/* The word to be completed. */
struct offer {
	const char *word;    /* as far as it is typed */
	const char *cluster; /* -C, or NULL */
};

/* Offer a candidate when it begins with the word: print it with its help. */
static void offer(const struct offer *o, const char *candidate, const char *help)
{
	/* Names of files and tables may contain control characters, which would break the line or the
	 * terminal. */
	for (const char *p = candidate; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return;
	if (*candidate && strncmp(candidate, o->word, strlen(o->word)) == 0)
		printf("%s\t%s\n", candidate, help ? help : "");
}

/* Offer each of "A|B|C" or "A,B,C", with `prefix` put in front. choices is like "bsp|ssp:S|asp" or
 * "none|backup,codec". Of "ssp:S" only "ssp:" is offered: the user types the rest. */
static void offer_split(const struct offer *o, const char *prefix, const char *choices)
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

/* Offer the names that `ps-ctl list PLURAL` prints, with `prefix` put in front. Of a name whose form has
 * parameters, as "step:EVERY:FACTOR", "step:" is offered: the user types the rest. */
static void offer_catalog_after(const struct offer *o, const char *prefix, const char *plural)
{
	const struct catalog *c = catalog_find(plural);
	json_t *list = c ? c->list() : NULL;
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item) {
		const char *form = json_str(item, "form", "");
		bool open = form[strcspn(form, ":[")] == ':';
		char *candidate = mem_printf("%s%s%s", prefix, json_str(item, "name", ""),
		    open ? ":" : "");

		if (open && strncmp(candidate, o->word, strlen(o->word)) == 0)
			puts(":nospace");
		offer(o, candidate, json_str(item, "help", NULL));
		free(candidate);
	}
	json_decref(list);
}

static void offer_catalog(const struct offer *o, const char *plural)
{
	offer_catalog_after(o, "", plural);
}

/* The catalog that lists the values of a key, or NULL. */
static const char *plural_of_key(const struct conf_key *k)
{
	static const struct {
		const char *key, *plural;
	} known[] = { { "job.model", "models" }, { "job.optimizer", "optimizers" },
		{ "job.schedule", "schedules" }, { "job.format", "readers" } };

	for (size_t i = 0; i < CTL_COUNT(known); i++)
		if (strcmp(k->path, known[i].key) == 0)
			return known[i].plural;
	return NULL;
}

/* ---- keys ---- */

/* Offers the values of a key whose "=" is typed. Of a list, only the part after the last comma is
 * completed. */
static void offer_value(const struct offer *o)
{
	const char *is = strchr(o->word, '='), *comma = strrchr(is, ',');
	char *name = mem_printf("%.*s", (int)(is - o->word), o->word);
	char *prefix = mem_printf("%.*s", (int)((comma ? comma : is) + 1 - o->word), o->word);
	const struct conf_key *k = conf_key_find(name, NULL);

	if (k && plural_of_key(k)) {
		offer_catalog_after(o, prefix, plural_of_key(k));
	} else if (k && strcmp(k->path, "job.stop") == 0) {
		for (size_t i = 0; i < METRICS; i++) {
			char *candidate = mem_printf("%s%s", prefix, metric_name[i]);

			offer(o, candidate, NULL);
			free(candidate);
		}
	} else if (k && (k->choices || k->type == CONF_BOOL)) {
		offer_split(o, prefix, k->choices ? k->choices : "true|false");
	} else if (k && k->type == CONF_PATHS) {
		puts(":files");
	}
	free(name);
	free(prefix);
}

/* Offer "KEY=" for the keys of the cluster file (live_only: those that ps-ctl set can change), or
 * the values of a key when the word has a "=" already. */
static void offer_keys(const struct offer *o, bool live_only)
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

static void offer_run_dirs(const struct offer *o)
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

/* Let SIGALRM kill this process after ms milliseconds. */
static void limit_process(int ms)
{
	struct itimerval at = { .it_value = { ms / 1000, ms % 1000 * 1000 } };
	sigset_t set;

	signal(SIGALRM, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	setitimer(ITIMER_REAL, &at, NULL);
}

/* Returns the running cluster's answer to GET path, or NULL. Starts the time limit of this
 * process. */
static json_t *get_for_completion(const struct offer *o, const char *path)
{
	struct http_client *client = NULL;
	json_t *answer = NULL;

	/* Print the candidates found so far: the time limit may kill this process. */
	fflush(stdout);
	limit_process(COMPLETION_MS);
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

/* Ask the running cluster: offer the ids of its servers (and workers). */
static void offer_ids(const struct offer *o, bool workers)
{
	offer_members(o, "/v1/servers", "servers", "id", "state");
	if (workers)
		offer_members(o, "/v1/workers", "workers", "id", "state");
}

static void offer_tables(const struct offer *o)
{
	offer_members(o, "/v1/tables", "tables", "id", NULL);
}

#define OPTIONS_MAX 64
#define FIELDS      5
/* Processor time of a program that is asked for its options; it only prints them and waits for
 * nobody, so how long that takes on a busy machine does not matter. */
#define PROGRAM_SECONDS 2

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
			setrlimit(RLIMIT_CPU, &(struct rlimit){ PROGRAM_SECONDS, PROGRAM_SECONDS });
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

/* Returns the option whose value is the last word, or NULL. Counts the operands before it. */
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
		offer_split(&l->offer, "", o->field[3]);
	else if (strcmp(name, "role") == 0)
		offer_split(&l->offer, "", CTL_ROLES);
	else if (strcmp(name, "model") == 0)
		offer_catalog(&l->offer, "models");
	else if (strcmp(name, "codec") == 0)
		offer_catalog(&l->offer, "codecs");
	else if (strcmp(name, "for") == 0) {
		puts(":nospace");
		offer_split(&l->offer, "", "done|ready|step=|workers=|loss-below=");
	} else if (strcmp(name, "resume") == 0) {
		offer_split(&l->offer, "", "auto|none|step=");
		puts(":dirs");
	} else if (strcmp(name, "init-from") == 0) {
		puts(":files");
	} else if (strncmp(arg, "KEY=", 4) == 0)
		offer_keys(&l->offer, false);
	else if (strcmp(o->field[1], "C") == 0)
		offer_run_dirs(&l->offer);
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
#include "msg/event.def"
#undef EVENT
    ;

static void offer_servers(const struct offer *o)
{
	offer_ids(o, false);
}

static void offer_processes(const struct offer *o)
{
	offer_ids(o, true);
}

static void offer_events(const struct offer *o)
{
	offer_split(o, "", EVENTS);
}

static void offer_folders(const struct offer *o)
{
	(void)o;
	puts(":dirs");
}

static void offer_job_files(const struct offer *o)
{
	(void)o;
	puts(":json");
}

/* The words that a placeholder of a synopsis stands for. */
static const struct {
	const char *name;
	void (*offer)(const struct offer *o);
} placeholders[] = {
	{ "FILE", offer_job_files },
	{ "RUN", offer_run_dirs },
	{ "DIR", offer_folders },
	{ "FOLDER", offer_folders },
	{ "KIND", offer_events },
	{ "TABLE", offer_tables },
	{ "ID", offer_processes },
	{ "SERVER", offer_servers },
};

static void offer_placeholder(const struct offer *o, const char *name, size_t len)
{
	for (size_t i = 0; i < CTL_COUNT(placeholders); i++)
		if (strlen(placeholders[i].name) == len &&
		    memcmp(placeholders[i].name, name, len) == 0)
			placeholders[i].offer(o);
}

/* Offers a word of a synopsis: "add" as the first operand, and of "servers=N" the part that is not
 * for the user to fill in. */
static void offer_word(const struct line *l, const char *word, size_t len)
{
	bool open = word[len] == '=';
	char *candidate = mem_printf("%.*s", (int)(len + open), word);

	if (open)
		puts(":nospace");
	if (open || l->operands == 0)
		offer(&l->offer, candidate, NULL);
	free(candidate);
}

/* Offers the operands of a synopsis, as "add NAME | list" or "TABLE|all": of each alternative the
 * first word. The placeholders are last, because the cluster may be asked for them. */
static void offer_synopsis(const struct line *l, const char *args)
{
	for (int pass = 0; pass < 2; pass++)
		for (const char *at = args; *at; at += strcspn(at, "|"), at += *at == '|') {
			size_t len;

			at += strspn(at, " [");
			len = strcspn(at, " |]=");
			if (pass == 0 && *at >= 'a' && *at <= 'z')
				offer_word(l, at, len);
			else if (pass == 1)
				offer_placeholder(&l->offer, at, len);
		}
}

/* Offers operands of a subcommand of ps-ctl. */
static void offer_ctl_operand(const struct line *l)
{
	const struct offer *o = &l->offer;
	const struct ctl_cmd *cmd = ctl_find(l->sub);

	if (strcmp(l->sub, "set") == 0)
		offer_keys(o, true);
	else if (strcmp(l->sub, "table") == 0 && l->operands == 1)
		offer_tables(o);
	else if (strcmp(l->sub, "get") == 0 && l->operands > 0)
		offer_catalog(o, "options");
	else if (strcmp(l->sub, "show") == 0) {
		offer_catalog(o, "options");
		offer_catalog(o, "models");
		offer_catalog(o, "optimizers");
		offer_catalog(o, "codecs");
		offer_catalog(o, "modes");
		offer_catalog(o, "schedules");
		offer_catalog(o, "readers");
	} else if (strcmp(l->sub, "help") == 0)
		offer_catalog(o, "subcommands");
	else if (cmd && cmd->usage.args)
		offer_synopsis(l, cmd->usage.args);
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
		offer_tables(&l->offer);
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
			offer_run_dirs(&l->offer);
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
