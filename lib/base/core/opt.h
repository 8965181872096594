/* SPDX-License-Identifier: ISC */
#ifndef CORE_OPT_H
#define CORE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/err.h"

/* Command-line options. One table for each program or subcommand drives parsing, bounds, -h,
 * --help, completion, and the test that compares it with the manual page. Used by main's thread. */
enum opt_kind {
	OPT_FLAG,     /* bool, set true */
	OPT_STR,      /* const char *, points into argv */
	OPT_INT,      /* int64_t, within min..max */
	OPT_NUM,      /* double, within min..max */
	OPT_SIZE,     /* uint64_t bytes: 64K, 4M */
	OPT_DURATION, /* int64_t nanoseconds: 200ms, 30s */
	OPT_CHOICE,   /* const char *, one of `choices` ("tcp|unix") */
	OPT_LIST,     /* struct opt_list, may be given again and again */
};

struct opt_list {
	const char **item;
	size_t n;
};

struct opt {
	const char *name; /* long name without "--" */
	char letter;      /* 0: none */
	enum opt_kind kind;
	size_t offset;    /* of the field in the program's options struct */
	const char *arg;  /* "FILE"; NULL for flags */
	const char *help; /* one line */
	const char *choices;
	double min, max; /* both 0: no bounds */
};

#define OPT_ADVICE 200

struct opt_spec {
	const char *prog;     /* "ps-ctl run" */
	const char *args;     /* synopsis of the operands: "FILE" */
	const char *about;    /* one sentence */
	const char *more;     /* paragraphs for --help, may be NULL */
	const char *examples; /* lines, each "  command    # what" */
	const struct opt *opts;
	size_t nopts;
	int min_args, max_args; /* operands; max -1: any number */
	/* Advises about an argument that the table does not know: an option ("--lr" with the value
	 * that follows it, NULL: none), or an operand too many (value NULL). Writes "did you mean
	 * ..." to out; false: it has no advice. NULL: there is no advice. */
	bool (*advise)(const struct opt_spec *spec, const char *arg, const char *value,
	    char out[static OPT_ADVICE]);
};

enum opt_result { OPT_GO, OPT_EXIT_OK, OPT_EXIT_USAGE };

/* Parses argv into the struct at out, which holds the defaults; operands are moved to
 * argv[1..*nargs]. -h, --help, --version, --ps-complete (the names) and --ps-options (the table,
 * for completion) are answered on stdout (OPT_EXIT_OK). A mistake prints one sentence with "did you
 * mean" and "see PROG -h" on stderr (OPT_EXIT_USAGE). A lone "-" and everything after "--" are
 * operands; options and operands may be mixed. */
enum opt_result opt_parse(const struct opt_spec *spec, void *out, int argc, char **argv,
    int *nargs);
void opt_list_release(struct opt_list *l);

/* Prints the help text; whole: the text of --help, else of -h. */
void opt_help(const struct opt_spec *spec, FILE *f, bool whole);

#endif
