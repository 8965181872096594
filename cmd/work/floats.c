#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cmd/work/cmd.h"
#include "cmd/work/common.h"

/* Numbers as text, one a line, and as raw little-endian float32: for programs that are scripts. */

struct options {
	bool decode;
};

static const struct opt opts[] = {
	{ "decode", 'd', OPT_FLAG, offsetof(struct options, decode), NULL, "raw float32 to text", NULL, 0, 0 },
};

static const struct opt_spec spec = {
	.prog = "ps-work floats",
	.args = "[FILE]",
	.about = "Numbers of FILE or stdin, separated by blanks or line ends, to raw little-endian float32 on stdout; -d: back.",
	.more = "Text has as many digits as float32 needs to come back the same.",
	.examples = "  awk '{ print $1 / 2 }' g.txt | ps-work floats > \"$PSKIT_DIR/w.grad\"\n"
	    "  ps-work floats -d \"$PSKIT_DIR/w.param\"\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.max_args = 1,
};

static bool is_number(const char *word, float *out)
{
	char *end;
	double v = strtod(word, &end);

	*out = (float)v;
	return end != word && !*end;
}

static enum err_code encode(FILE *in, struct err *e)
{
	char word[64];
	uint64_t n = 0;

	while (fscanf(in, "%63s", word) == 1) {
		float v;

		n++;
		if (!is_number(word, &v))
			return err_set(e, ERR_FORMAT, "word %llu: \"%s\" is no number", (unsigned long long)n, word);
		fwrite(&v, sizeof v, 1, stdout);
	}
	return ERR_OK;
}

static enum err_code decode(FILE *in, struct err *e)
{
	size_t n;
	float v;

	while ((n = fread(&v, 1, sizeof v, in)) == sizeof v)
		printf("%.9g\n", (double)v);
	return n ? err_set(e, ERR_FORMAT, "%zu bytes are left over: a float32 has 4", n) : ERR_OK;
}

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
		rc = o.decode ? decode(in, &e) : encode(in, &e);
	if (!rc && ferror(in))
		rc = err_sys(&e, ERR_IO, "cannot read");
	if (in && in != stdin)
		fclose(in);
	return rc ? fail(spec.prog, &e) : 0;
}
