/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/work/cmd.h"
#include "cmd/work/common.h"
#include "core/num.h"

/* The command floats: converts numbers between text, one a line, and raw little-endian float32 or
 * uint64, for programs of the user that are scripts. */

struct options {
	bool decode, ids;
};

static const struct opt opts[] = {
	{ "decode", 'd', OPT_FLAG, offsetof(struct options, decode), NULL,
	    "convert raw numbers to text", NULL, 0, 0 },
	{ "ids", 'i', OPT_FLAG, offsetof(struct options, ids), NULL,
	    "convert row ids, as raw uint64, instead of float32", NULL, 0, 0 },
};

static const struct opt_spec spec = {
	.prog = "ps-work floats",
	.args = "[FILE]",
	.about =
	    "Convert numbers in FILE or stdin, separated by blanks or line ends, to raw little-endian "
	    "float32 on stdout.",
	.more =
	    "With -d, the text has as many digits as are needed to convert it back to the same float32.",
	.examples = "  awk '{ print $1 / 2 }' g.txt | ps-work floats > \"$PSKIT_DIR/w.grad\"\n"
	            "  ps-work floats -d \"$PSKIT_DIR/w.param\"\n"
	            "  sort -nu ids.txt | ps-work floats -i > \"$PSKIT_DIR/emb.ids\"\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.max_args = 1,
};

/* A value or, with --ids, a row id. */
union number {
	float value;
	uint64_t id;
};

static size_t number_bytes(const struct options *o)
{
	return o->ids ? sizeof(uint64_t) : sizeof(float);
}

static bool parse_number_word(const struct options *o, const char *word, union number *out)
{
	char *end;
	double v;

	if (o->ids)
		return num_uint(word, UINT64_MAX, &out->id);
	v = num_strtod(word, &end);
	out->value = (float)v;
	return end != word && !*end;
}

static enum err_code write_numbers_raw(const struct options *o, FILE *in, struct err *e)
{
	char word[64];
	uint64_t n = 0;

	while (fscanf(in, "%63s", word) == 1) {
		union number v;

		n++;
		if (!parse_number_word(o, word, &v))
			return err_set(e, ERR_FORMAT, "word %llu: \"%s\" is not %s",
			    (unsigned long long)n, word,
			    o->ids ? "an id from 0 to 2^64 - 1" : "a number");
		fwrite(&v, number_bytes(o), 1, stdout);
	}
	return ERR_OK;
}

static enum err_code write_numbers_as_text(const struct options *o, FILE *in, struct err *e)
{
	union number v;
	size_t n;

	while ((n = fread(&v, 1, number_bytes(o), in)) == number_bytes(o)) {
		if (o->ids)
			printf("%llu\n", (unsigned long long)v.id);
		else
			printf("%.9g\n", (double)v.value);
	}
	return n ? err_set(e, ERR_FORMAT, "%zu byte%s left over: %s has %zu bytes", n,
	               n == 1 ? " is" : "s are", o->ids ? "an id" : "a float32", number_bytes(o))
	         : ERR_OK;
}

/* Converts between text and raw float32; "-" or no operand is standard input. Returns the exit
 * code. */
int cmd_floats(int argc, char **argv)
{
	struct options o = { 0 };
	struct err e = { 0 };
	enum err_code rc = ERR_OK;
	FILE *in = stdin;
	int nargs;

	switch (opt_parse(&spec, &o, argc, argv, &nargs)) {
	case OPT_EXIT_OK:
		return 0;
	case OPT_EXIT_USAGE:
		return 2;
	default:
		break;
	}
	if (nargs && strcmp(argv[1], "-") != 0 && !(in = fopen(argv[1], "re")))
		rc = err_sys(&e, ERR_NOTFOUND, "cannot open %s", argv[1]);
	if (!rc)
		rc = o.decode ? write_numbers_as_text(&o, in, &e) : write_numbers_raw(&o, in, &e);
	if (!rc && ferror(in))
		rc = err_sys(&e, ERR_IO, "cannot read");
	if (in && in != stdin)
		fclose(in);
	return rc ? fail(spec.prog, &e) : 0;
}
