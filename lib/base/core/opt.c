/* SPDX-License-Identifier: ISC */
#include "core/opt.h"

#include <math.h>
#include <sodium.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/suggest.h"
#include "core/version.h"

/* Options that every program has. */
static const char *const common[] = { "help", "version" };

static void print_mistake(const struct opt_spec *spec, const char *what)
{
	fprintf(stderr, "%s: %s (see %s -h)\n", spec->prog, what, spec->prog);
}

/* ---- help ---- */

static void print_option(const struct opt *o, FILE *f)
{
	char left[80];
	int n = 0;

	if (o->letter)
		n = snprintf(left, sizeof left, "-%c, ", o->letter);
	else
		n = snprintf(left, sizeof left, "    ");
	snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", o->name, o->arg ? " " : "",
	    o->arg ? o->arg : "");
	fprintf(f, "  %-28s %s", left, o->help);
	if (o->choices)
		fprintf(f, " (%s)", o->choices);
	fputc('\n', f);
}

void opt_help(const struct opt_spec *spec, FILE *f, bool whole)
{
	fprintf(f, "usage: %s%s%s%s\n%s\n", spec->prog, spec->nopts ? " [options]" : "",
	    spec->args ? " " : "", spec->args ? spec->args : "", spec->about);
	if (whole && spec->more)
		fprintf(f, "\n%s\n", spec->more);
	fprintf(f, "\noptions:\n");
	for (size_t i = 0; i < spec->nopts; i++)
		print_option(&spec->opts[i], f);
	fprintf(f, "  %-28s %s\n  %-28s %s\n", "-h, --help",
	    whole ? "short and complete help" : "short help; --help shows all options",
	    "    --version", "version and exit");
	if (spec->examples)
		fprintf(f, "\nexamples:\n%s", spec->examples);
}

static void print_program_version(const struct opt_spec *spec)
{
	int n = (int)strcspn(spec->prog, " ");

	printf("%.*s %s (protocol %d, libsodium %s)\n", n, spec->prog, PSKIT_VERSION,
	    PSKIT_PROTOCOL, sodium_version_string());
}

static void print_option_names(const struct opt_spec *spec)
{
	for (size_t i = 0; i < spec->nopts; i++)
		printf("--%s\n", spec->opts[i].name);
	printf("--help\n--version\n");
}

/* Prints a line an option for the shell's completion: name, letter, argument, choices, help; "-"
 * for a missing one. */
static void print_option_table(const struct opt_spec *spec)
{
	for (size_t i = 0; i < spec->nopts; i++) {
		const struct opt *o = &spec->opts[i];

		printf("--%s\t%c\t%s\t%s\t%s\n", o->name, o->letter ? o->letter : '-',
		    o->arg ? o->arg : "-", o->choices ? o->choices : "-", o->help);
	}
	printf("--help\th\t-\t-\tthe complete help\n--version\t-\t-\t-\tversion and exit\n");
}

/* ---- values ---- */

static bool out_of_bounds(const struct opt *o, double v)
{
	return (o->min != 0 || o->max != 0) && (v < o->min || v > o->max);
}

static bool is_choice(const char *choices, const char *v)
{
	size_t n = strcspn(v, "|");

	if (v[n])
		return false;
	for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
		if (strncmp(p, v, n) == 0 && (p[n] == 0 || p[n] == '|') && n)
			return true;
	return false;
}

/* Stores a value. Returns what it should have been, for the message; NULL: it was valid. */
static const char *store_option_value(const struct opt *o, void *field, const char *v)
{
	struct opt_list *l = field;
	uint64_t size;
	int64_t i;
	double d;

	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)field = true;
		return NULL;
	case OPT_STR:
		*(const char **)field = v;
		return NULL;
	case OPT_INT:
		if (!num_int(v, INT64_MIN, INT64_MAX, &i) || out_of_bounds(o, (double)i))
			return "an integer";
		*(int64_t *)field = i;
		return NULL;
	case OPT_NUM:
		if (!num_double(v, &d) || out_of_bounds(o, d))
			return "a number";
		*(double *)field = d;
		return NULL;
	case OPT_SIZE:
		if (!num_size(v, &size) || out_of_bounds(o, (double)size))
			return "a size such as 4096, 64K or 4M";
		*(uint64_t *)field = size;
		return NULL;
	case OPT_DURATION:
		if (!num_duration(v, &i) || out_of_bounds(o, (double)i))
			return "a time such as 200ms or 30s";
		*(int64_t *)field = i;
		return NULL;
	case OPT_CHOICE:
		if (!is_choice(o->choices, v))
			return "one of";
		*(const char **)field = v;
		return NULL;
	case OPT_LIST:
		l->item = mem_regrow((void *)l->item, l->n + 1, sizeof *l->item);
		l->item[l->n++] = v;
		return NULL;
	}
	return "of a known kind";
}

/* A bound, written as the option's values are. */
static void print_bound(const struct opt *o, double v, char out[static 48])
{
	static const char suffix[] = "KMGT";
	char text[32], unit[2] = "";

	if (o->kind == OPT_DURATION) {
		v /= 1e9;
		unit[0] = 's';
	}
	for (int i = 0; o->kind == OPT_SIZE && i < 4 && v >= 1024 && fmod(v, 1024) == 0; i++) {
		v /= 1024;
		unit[0] = suffix[i];
	}
	if (fabs(v) < 1e15 && v == floor(v))
		snprintf(text, sizeof text, "%.0f", v);
	else
		num_format(v, text);
	snprintf(out, 48, "%s%s", text, unit);
}

static void print_bounds(const struct opt *o, char *out, size_t n)
{
	char min[48], max[48];

	print_bound(o, o->min, min);
	print_bound(o, o->max, max);
	/* A bound that no value reaches is not mentioned. */
	if (o->max >= 0x1p62)
		snprintf(out, n, ", at least %s", min);
	else
		snprintf(out, n, " from %s to %s", min, max);
}

static bool set_value(const struct opt_spec *spec, const struct opt *o, void *out, const char *v)
{
	const char *want = store_option_value(o, (char *)out + o->offset, v);
	char what[400], bounds[128] = "";

	if (!want)
		return true;
	if (o->kind == OPT_CHOICE)
		snprintf(bounds, sizeof bounds, " %s", o->choices);
	else if (o->min != 0 || o->max != 0)
		print_bounds(o, bounds, sizeof bounds);
	snprintf(what, sizeof what, "--%s: must be %s%s, got \"%.100s\"", o->name, want, bounds, v);
	print_mistake(spec, what);
	return false;
}

/* ---- parsing ---- */

static const struct opt *find_long_option(const struct opt_spec *spec, const char *s, size_t n)
{
	for (size_t i = 0; i < spec->nopts; i++)
		if (strlen(spec->opts[i].name) == n && strncmp(spec->opts[i].name, s, n) == 0)
			return &spec->opts[i];
	return NULL;
}

static const struct opt *by_letter(const struct opt_spec *spec, char c)
{
	for (size_t i = 0; i < spec->nopts; i++)
		if (spec->opts[i].letter == c)
			return &spec->opts[i];
	return NULL;
}

static void unknown_letter(const struct opt_spec *spec, char c)
{
	char what[64];

	snprintf(what, sizeof what, "unknown option \"-%c\"", c);
	print_mistake(spec, what);
}

/* Reports an argument with the advice of the program; false: it has none. */
static bool report_with_advice(const struct opt_spec *spec, const char *kind, const char *arg,
    const char *value)
{
	char advice[OPT_ADVICE], what[OPT_ADVICE + 200];

	if (!spec->advise || !spec->advise(spec, arg, value, advice))
		return false;
	snprintf(what, sizeof what, "%s \"%.100s\"; %s", kind, arg, advice);
	print_mistake(spec, what);
	return true;
}

/* next: the argument that follows, or NULL. */
static void unknown_name(const struct opt_spec *spec, const char *name, size_t n, const char *next)
{
	const char **names = mem_array(spec->nopts + 2, sizeof *names), *near;
	char word[64], what[300], option[70];

	snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : (int)sizeof word, name);
	for (size_t i = 0; i < spec->nopts; i++)
		names[i] = spec->opts[i].name;
	memcpy(names + spec->nopts, common, sizeof common);
	near = suggest(word, names, spec->nopts + 2);
	snprintf(option, sizeof option, "--%s", word);
	if (report_with_advice(spec, "unknown option", option,
	        name[n] == '='             ? name + n + 1
	            : next && *next != '-' ? next
	                                   : NULL)) {
		free((void *)names);
		return;
	}
	if (near)
		snprintf(what, sizeof what, "unknown option \"--%s\"; did you mean \"--%s\"?", word,
		    near);
	else
		snprintf(what, sizeof what, "unknown option \"--%s\"", word);
	print_mistake(spec, what);
	free((void *)names);
}

static bool report_missing_value(const struct opt_spec *spec, const struct opt *o)
{
	char what[200];

	snprintf(what, sizeof what, "--%s needs a value: %s", o->name, o->arg ? o->arg : "VALUE");
	print_mistake(spec, what);
	return false;
}

struct cursor {
	int argc, at, nargs;
	char **argv;
};

/* Parses "--name", "--name=value" or "--name value". */
static bool parse_long(const struct opt_spec *spec, void *out, struct cursor *c)
{
	const char *arg = c->argv[c->at], *eq = strchr(arg, '=');
	size_t n = eq ? (size_t)(eq - arg) - 2 : strlen(arg + 2);
	const struct opt *o = find_long_option(spec, arg + 2, n);
	char what[200];

	if (!o) {
		unknown_name(spec, arg + 2, n, c->at + 1 < c->argc ? c->argv[c->at + 1] : NULL);
		return false;
	}
	if (o->kind == OPT_FLAG && eq) {
		snprintf(what, sizeof what, "--%s takes no value", o->name);
		print_mistake(spec, what);
		return false;
	}
	if (o->kind == OPT_FLAG)
		return set_value(spec, o, out, "");
	if (eq)
		return set_value(spec, o, out, eq + 1);
	if (c->at + 1 >= c->argc)
		return report_missing_value(spec, o);
	return set_value(spec, o, out, c->argv[++c->at]);
}

/* Parses "-abc": flags, and perhaps an option with a value at the end. */
static bool parse_letters(const struct opt_spec *spec, void *out, struct cursor *c)
{
	const char *arg = c->argv[c->at];

	for (const char *p = arg + 1; *p; p++) {
		const struct opt *o = by_letter(spec, *p);

		if (!o) {
			unknown_letter(spec, *p);
			return false;
		}
		if (o->kind == OPT_FLAG) {
			if (!set_value(spec, o, out, ""))
				return false;
			continue;
		}
		if (p[1])
			return set_value(spec, o, out, p + 1);
		if (c->at + 1 >= c->argc)
			return report_missing_value(spec, o);
		return set_value(spec, o, out, c->argv[++c->at]);
	}
	return true;
}

/* Answers --help, --version and the options for completion; false: it is none of them. */
static bool answer_standard(const struct opt_spec *spec, const char *arg)
{
	if (strcmp(arg, "-h") == 0)
		opt_help(spec, stdout, false);
	else if (strcmp(arg, "--help") == 0)
		opt_help(spec, stdout, true);
	else if (strcmp(arg, "--version") == 0)
		print_program_version(spec);
	else if (strcmp(arg, "--ps-complete") == 0)
		print_option_names(spec);
	else if (strcmp(arg, "--ps-options") == 0)
		print_option_table(spec);
	else
		return false;
	return true;
}

/* Operands are moved to the front of argv as they are found, so options may be anywhere before
 * "--". A lone "-" is an operand. */
enum opt_result opt_parse(const struct opt_spec *spec, void *out, int argc, char **argv, int *nargs)
{
	struct cursor c = { .argc = argc, .at = 1, .argv = argv };
	bool only_args = false;

	for (; c.at < argc; c.at++) {
		char *arg = argv[c.at];

		if (only_args || arg[0] != '-' || !arg[1])
			argv[++c.nargs] = arg;
		else if (strcmp(arg, "--") == 0)
			only_args = true;
		else if (answer_standard(spec, arg))
			return OPT_EXIT_OK;
		else if (!(arg[1] == '-' ? parse_long(spec, out, &c)
		                         : parse_letters(spec, out, &c)))
			return OPT_EXIT_USAGE;
	}
	*nargs = c.nargs;
	if (c.nargs < spec->min_args) {
		print_mistake(spec, spec->args ? "an operand is missing" : "too few arguments");
		fprintf(stderr, "usage: %s [options] %s\n", spec->prog,
		    spec->args ? spec->args : "");
		return OPT_EXIT_USAGE;
	}
	if (spec->max_args >= 0 && c.nargs > spec->max_args) {
		char what[200];

		if (report_with_advice(spec, "unexpected operand", argv[spec->max_args + 1], NULL))
			return OPT_EXIT_USAGE;
		snprintf(what, sizeof what, "unexpected operand \"%.100s\"",
		    argv[spec->max_args + 1]);
		print_mistake(spec, what);
		return OPT_EXIT_USAGE;
	}
	return OPT_GO;
}

void opt_list_release(struct opt_list *l)
{
	free((void *)l->item);
	*l = (struct opt_list){ 0 };
}
