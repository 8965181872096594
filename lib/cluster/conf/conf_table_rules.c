/* SPDX-License-Identifier: ISC */
/* job.rules: "PATTERN:key=value key=value,PATTERN:...", the update rules and the synchronization of
 * single tables. */
#include <stdlib.h>
#include <string.h>

#include "conf/conf_rule.h"
#include "conf/conf_value.h"
#include "core/buf.h"
#include "core/mem.h"
#include "core/suggest.h"

#define PATTERN_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*?"

/* The next word of a list that blanks separate, as a fresh string; NULL: there is none. *at moves
 * after it. */
static char *take_word(const char **at)
{
	size_t n;
	char *word;

	*at += strspn(*at, " ");
	n = strcspn(*at, " ");
	word = n ? mem_printf("%.*s", (int)n, *at) : NULL;
	*at += n;
	return word;
}

/* Reports a rule or a key that does not exist, with the one that was meant or with all of them. */
static enum err_code report_unknown(const char *what, const char *got, const char *const *names,
    size_t n, struct err *e)
{
	const char *near = suggest(got, names, n);
	struct buf list = BUF_INIT;
	enum err_code rc;

	for (size_t i = 0; i < n; i++)
		buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
	rc = near
	    ? err_set(e, ERR_CONFIG, "no %s \"%.40s\"; did you mean \"%s\"?", what, got, near)
	    : err_set(e, ERR_CONFIG, "no %s \"%.40s\"; there are %s", what, got, (char *)list.data);
	buf_release(&list);
	return rc;
}

/* Begins an entry with the rule of this name. The constants are those of the job while the rule is
 * the job's, else those of the rule's paper. l1 and l2 are always the job's, as far as the rule has
 * them. */
static enum err_code begin_rule(const char *name, const struct conf_rule *job,
    struct table_rule *out, struct err *e)
{
	const char *names[64];
	size_t n = 0;

	for (; n < sizeof names / sizeof *names && optim_at(n); n++)
		names[n] = optim_at(n)->name;
	out->rule = optim_find(name);
	if (!out->rule)
		return report_unknown("update rule", name, names, n, e);
	if (out->rule == job->rule) {
		out->hyper = job->hyper;
		return ERR_OK;
	}
	out->rule->defaults(&out->hyper);
	out->hyper.l1 = out->rule->uses & OPTIM_USES_L1 ? job->hyper.l1 : 0;
	out->hyper.l2 = job->hyper.l2;
	return ERR_OK;
}

/* Sets one constant from "name=value", within the bounds of the key job.NAME. */
static enum err_code set_constant(const char *word, struct table_rule *out, struct err *e)
{
	const char *names[CONF_RULE_KEYS_MAX + 2];
	size_t n = conf_rule_keys(names), length = strcspn(word, "=");
	char *name = mem_printf("%.*s", (int)length, word);
	struct conf_rule_key key;
	union conf_value v;
	enum err_code rc = ERR_CONFIG;

	names[n++] = "optimizer";
	names[n++] = "sync";
	if (word[length] != '=')
		rc = err_set(e, rc, "\"%.40s\" must have the form key=value", word);
	else if (!conf_rule_key_find(name, &key))
		rc = report_unknown("key", name, names, n, e);
	else if (key.uses && !(out->rule->uses & key.uses))
		rc = err_set(e, rc, "%s has no %s", out->rule->name, name);
	else if (conf_type_ops(CONF_NUM)->parse(conf_key_find(key.path, NULL), word + length + 1,
	             &v, e)) {
		float f = (float)v.d;
		struct optim_hyper paper;

		/* As for the job, eps 0 is the value of the rule's paper. */
		out->rule->defaults(&paper);
		f = key.uses == OPTIM_USES_EPS && !(f > 0) ? paper.eps : f;
		memcpy((char *)&out->hyper + key.offset, &f, sizeof f);
		rc = ERR_OK;
	}
	free(name);
	return rc;
}

/* Sets the synchronization of the table from the text after "sync=". */
static enum err_code set_sync(const char *mode, struct table_rule *out, struct err *e)
{
	if (strcmp(mode, "asp") != 0 && strcmp(mode, "bsp") != 0)
		return err_set(e, ERR_CONFIG, "sync of a table must be bsp or asp, got \"%.40s\"",
		    mode);
	out->on_arrival = strcmp(mode, "asp") == 0;
	return ERR_OK;
}

/* Parses what follows the pattern. The rule comes first, wherever it stands, because the
 * defaults of the other keys depend on it. */
static enum err_code parse_constants(const char *text, const struct conf_rule *job,
    struct table_rule *out, struct err *e)
{
	static const char rule_key[] = "optimizer=", sync_key[] = "sync=";
	const size_t skip = sizeof rule_key - 1, sync_skip = sizeof sync_key - 1;
	enum err_code rc = begin_rule(job->rule->name, job, out, e);
	unsigned words = 0;
	char *word;

	for (const char *at = text; !rc && (word = take_word(&at)) != NULL; free(word))
		if (strncmp(word, rule_key, skip) == 0)
			rc = begin_rule(word + skip, job, out, e);
	for (const char *at = text; !rc && (word = take_word(&at)) != NULL; free(word), words++)
		if (strncmp(word, sync_key, sync_skip) == 0)
			rc = set_sync(word + sync_skip, out, e);
		else if (strncmp(word, rule_key, skip) != 0)
			rc = set_constant(word, out, e);
	if (!rc && !words)
		rc = err_set(e, ERR_CONFIG, "a key is missing, such as optimizer=ftrl");
	return rc;
}

/* Parses one entry. The message of an error begins with the entry's pattern. */
static enum err_code parse_entry(char *entry, const struct conf_rule *job, struct table_rules *list,
    struct err *e)
{
	char *colon = strchr(entry, ':');
	struct table_rule *out = &list->of[list->n];
	enum err_code rc;

	if (!colon || colon == entry || colon - entry >= TABLE_RULES_PATTERN ||
	    strspn(entry, PATTERN_LETTERS) != (size_t)(colon - entry))
		return err_set(e, ERR_CONFIG,
		    "must be none or TABLE:key=value ..., separated by commas, got \"%.80s\"",
		    entry);
	if (list->n == TABLE_RULES_MAX)
		return err_set(e, ERR_CONFIG, "at most %d tables or patterns, got more",
		    TABLE_RULES_MAX);
	*colon = '\0';
	for (unsigned i = 0; i < list->n; i++)
		if (strcmp(list->of[i].pattern, entry) == 0)
			return err_set(e, ERR_CONFIG, "names %s twice", entry);
	memcpy(out->pattern, entry, (size_t)(colon - entry) + 1);
	rc = parse_constants(colon + 1, job, out, e);
	list->n++;
	return rc ? err_prefix(e, "%s", entry) : ERR_OK;
}

enum err_code conf_table_rules(const char *text, const struct conf_rule *job,
    struct table_rules *out, struct err *e)
{
	enum err_code rc = ERR_OK;
	struct err own;

	if (!e)
		e = &own;
	*out = (struct table_rules){ 0 };
	for (const char *at = text; !rc && conf_is_named(text) && at;) {
		size_t blank = strspn(at, " "), n = strcspn(at + blank, ",");
		char *entry = mem_printf("%.*s", (int)n, at + blank);

		rc = parse_entry(entry, job, out, e);
		free(entry);
		at = at[blank + n] ? at + blank + n + 1 : NULL;
	}
	return rc ? err_prefix(e, "job.rules") : ERR_OK;
}
