/* SPDX-License-Identifier: ISC */
/* Command lines: every kind of option, every mistake, help. */
#include <inttypes.h>
#include <sodium.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/opt.h"
#include "core/version.h"
#include "tap.h"

struct got {
	bool quiet, force;
	const char *file, *via;
	int64_t n, wait;
	double rate;
	uint64_t bytes;
	struct opt_list set;
};

static const struct opt table[] = {
	{ "quiet", 'q', OPT_FLAG, offsetof(struct got, quiet), NULL, "say less", NULL, 0, 0 },
	{ "force", 'f', OPT_FLAG, offsetof(struct got, force), NULL, "do it", NULL, 0, 0 },
	{ "file", 'F', OPT_STR, offsetof(struct got, file), "FILE", "what to read", NULL, 0, 0 },
	{ "count", 'n', OPT_INT, offsetof(struct got, n), "N", "how many", NULL, -5, 10000000 },
	{ "rate", 0, OPT_NUM, offsetof(struct got, rate), "X", "how fast", NULL, 0.25, 1.5 },
	{ "bytes", 'b', OPT_SIZE, offsetof(struct got, bytes), "SIZE", "how much", NULL, 4,
	    0x1p30 },
	{ "wait", 'w', OPT_DURATION, offsetof(struct got, wait), "TIME", "how long", NULL, 1e6,
	    60e9 },
	{ "via", 'v', OPT_CHOICE, offsetof(struct got, via), "WAY", "by which way", "tcp|unix|shm",
	    0, 0 },
	{ "set", 's', OPT_LIST, offsetof(struct got, set), "KEY=VALUE", "set a key", NULL, 0, 0 },
};

static const struct opt_spec spec = {
	.prog = "prog sub",
	.args = "FILE...",
	.about = "Does a thing.",
	.more = "At great length.",
	.examples = "  prog sub -q x    # quietly\n",
	.opts = table,
	.nopts = sizeof table / sizeof *table,
	.min_args = 0,
	.max_args = 3,
};

/* One run of opt_parse with what it wrote to both streams. */
static struct {
	struct got got;
	enum opt_result result;
	char *argv[16];
	int nargs;
	char out[4000], err[4000];
} run;

static int divert(FILE *f, int *saved)
{
	int fd = memfd_create("tap", MFD_CLOEXEC);

	fflush(f);
	*saved = dup(fileno(f));
	dup2(fd, fileno(f));
	return fd;
}

static void restore(FILE *f, int fd, int saved, char *text, size_t size)
{
	ssize_t n;

	fflush(f);
	n = pread(fd, text, size - 1, 0);
	text[n > 0 ? n : 0] = 0;
	dup2(saved, fileno(f));
	close(saved);
	close(fd);
}

static void parse_as(const struct opt_spec *s, const char *const *args)
{
	int argc = 0, out, err, saved_out, saved_err;

	opt_list_release(&run.got.set);
	run.got = (struct got){ .n = 1, .via = "tcp" };
	run.nargs = -1;
	run.argv[argc++] = (char *)"prog";
	while (*args)
		run.argv[argc++] = (char *)*args++;
	run.argv[argc] = NULL;
	out = divert(stdout, &saved_out);
	err = divert(stderr, &saved_err);
	run.result = opt_parse(s, &run.got, argc, run.argv, &run.nargs);
	restore(stderr, err, saved_err, run.err, sizeof run.err);
	restore(stdout, out, saved_out, run.out, sizeof run.out);
}

#define parse(...) parse_as(&spec, (const char *const[]){ __VA_ARGS__, NULL })
#define GO         (run.result == OPT_GO && !*run.out && !*run.err)

/* One sentence on stderr, nothing on stdout. */
#define refuses(message, ...) \
	do { \
		parse(__VA_ARGS__); \
		ok(run.result == OPT_EXIT_USAGE && !*run.out && \
		        strcmp(run.err, "prog sub: " message " (see prog sub -h)\n") == 0, \
		    "%.300s", run.err); \
	} while (0)

static void test_forms(void)
{
	parse_as(&spec, (const char *const[]){ NULL });
	ok(GO && run.nargs == 0 && run.got.n == 1 && strcmp(run.got.via, "tcp") == 0,
	    "nothing: the defaults");
	parse("--quiet", "--file=a", "--count", "3", "--rate=0.5", "--bytes", "64K", "--wait=200ms",
	    "--via", "shm");
	ok(GO && run.got.quiet && !run.got.force && strcmp(run.got.file, "a") == 0 &&
	        run.got.n == 3 && run.got.rate == 0.5 && run.got.bytes == 65536 &&
	        run.got.wait == 200000000 && strcmp(run.got.via, "shm") == 0,
	    "long forms of all kinds");
	parse("-q", "-F", "a", "-n3", "-b4", "-w", "1s", "-vunix");
	ok(GO && run.got.quiet && strcmp(run.got.file, "a") == 0 && run.got.n == 3 &&
	        run.got.bytes == 4 && run.got.wait == 1000000000 &&
	        strcmp(run.got.via, "unix") == 0,
	    "short forms");
	parse("-qf");
	ok(GO && run.got.quiet && run.got.force, "flags in one");
	parse("-qfn", "7", "-qFx");
	ok(GO && run.got.force && run.got.n == 7 && strcmp(run.got.file, "x") == 0,
	    "a value after flags in one");
	parse("-F=x");
	ok(GO && strcmp(run.got.file, "=x") == 0, "after a letter = belongs to the value");
	parse("--file=", "--file=a=b");
	ok(GO && strcmp(run.got.file, "a=b") == 0, "the last one wins; = in a value");
	parse("--file", "--quiet", "-n", "-3");
	ok(GO && strcmp(run.got.file, "--quiet") == 0 && !run.got.quiet && run.got.n == -3,
	    "a value may begin with a dash");
	parse("-s", "a=1", "--set", "b=2", "--set=c=3");
	ok(GO && run.got.set.n == 3 && strcmp(run.got.set.item[0], "a=1") == 0 &&
	        strcmp(run.got.set.item[1], "b=2") == 0 && strcmp(run.got.set.item[2], "c=3") == 0,
	    "a list");
	opt_list_release(&run.got.set);
	ok(run.got.set.n == 0 && !run.got.set.item, "a list is released");
}

static void test_operands(void)
{
	parse("a", "-q", "b", "--count", "2", "c");
	ok(GO && run.nargs == 3 && run.got.n == 2 && strcmp(run.argv[1], "a") == 0 &&
	        strcmp(run.argv[2], "b") == 0 && strcmp(run.argv[3], "c") == 0,
	    "operands among options");
	parse("-", "--", "-q", "--");
	ok(GO && run.nargs == 3 && !run.got.quiet && strcmp(run.argv[1], "-") == 0 &&
	        strcmp(run.argv[2], "-q") == 0 && strcmp(run.argv[3], "--") == 0,
	    "a lone dash, and all after --");
	parse("--", "--help");
	ok(GO && run.nargs == 1, "--help after -- is an operand");
	parse("");
	ok(GO && run.nargs == 1 && !*run.argv[1], "an empty operand");
	refuses("unexpected operand \"d\"", "a", "b", "c", "d");
}

static void test_counts(void)
{
	struct opt_spec two = spec, any = spec, bare = { .prog = "p", .about = "x" };

	two.min_args = 2;
	any.max_args = -1;
	parse_as(&two, (const char *const[]){ "a", NULL });
	ok(run.result == OPT_EXIT_USAGE &&
	        strstr(run.err, "operand is missing (see prog sub -h)") &&
	        strstr(run.err, "usage: prog sub [options] FILE..."),
	    "too few: %s", run.err);
	parse_as(&two, (const char *const[]){ "a", "b", NULL });
	ok(GO && run.nargs == 2, "enough");
	parse_as(&any, (const char *const[]){ "1", "2", "3", "4", "5", NULL });
	ok(GO && run.nargs == 5, "any number");
	parse_as(&bare, (const char *const[]){ "a", NULL });
	ok(run.result == OPT_EXIT_USAGE, "none wanted, one given: %s", run.err);
	parse_as(&bare, (const char *const[]){ "-x", NULL });
	ok(run.result == OPT_EXIT_USAGE, "a program without options: %s", run.err);
}

static void test_unknown(void)
{
	refuses("unknown option \"--fiel\"; did you mean \"--file\"?", "--fiel");
	refuses("unknown option \"--byte\"; did you mean \"--bytes\"?", "--byte=4");
	refuses("unknown option \"--hepl\"; did you mean \"--help\"?", "--hepl");
	refuses("unknown option \"--versoin\"; did you mean \"--version\"?", "--versoin");
	refuses("unknown option \"--zzzzzzzz\"", "--zzzzzzzz=secret");
	refuses("unknown option \"--\"", "--=x");
}

static void test_unknown_more(void)
{
	char big[300];

	refuses("unknown option \"-z\"", "-z");
	refuses("unknown option \"-z\"", "-qzf");
	memset(big, 'x', sizeof big - 1);
	big[0] = big[1] = '-';
	big[sizeof big - 1] = 0;
	parse(big);
	ok(run.result == OPT_EXIT_USAGE && strstr(run.err, "unknown option \"--xxx"),
	    "a long one is cut short");
	parse("--fil");
	ok(run.result == OPT_EXIT_USAGE, "no abbreviation");
	parse("--");
	ok(GO && run.nargs == 0, "-- alone");
}

static void test_values(void)
{
	refuses("--quiet takes no value", "--quiet=1");
	refuses("--file needs a value: FILE", "--file");
	refuses("--count needs a value: N", "-qn");
	refuses("--count: must be an integer from -5 to 10000000, got \"x\"", "--count", "x");
	refuses("--count: must be an integer from -5 to 10000000, got \"-6\"", "--count=-6");
	refuses("--count: must be an integer from -5 to 10000000, got \"10000001\"", "-n10000001");
	refuses("--count: must be an integer from -5 to 10000000, got \"1.5\"", "-n1.5");
	refuses("--count: must be an integer from -5 to 10000000, got \"\"", "--count=");
	refuses("--rate: must be a number from 0.25 to 1.5, got \"1.6\"", "--rate=1.6");
	refuses("--rate: must be a number from 0.25 to 1.5, got \"nan\"", "--rate=nan");
	refuses("--bytes: must be a size such as 4096, 64K or 4M from 4 to 1G, got \"3\"", "-b3");
	refuses("--bytes: must be a size such as 4096, 64K or 4M from 4 to 1G, got \"2G\"", "-b",
	    "2G");
	refuses("--wait: must be a time such as 200ms or 30s from 0.001s to 60s, got \"61s\"",
	    "-w61s");
	refuses("--wait: must be a time such as 200ms or 30s from 0.001s to 60s, got \"soon\"",
	    "-wsoon");
	refuses("--via: must be one of tcp|unix|shm, got \"udp\"", "--via=udp");
	refuses("--via: must be one of tcp|unix|shm, got \"tc\"", "--via=tc");
	refuses("--via: must be one of tcp|unix|shm, got \"tcp|unix\"", "--via=tcp|unix");
	refuses("--via: must be one of tcp|unix|shm, got \"\"", "--via=");
	parse("-n-5", "-b1G", "-w60s", "--rate=0.25");
	ok(GO && run.got.n == -5 && run.got.bytes == 1 << 30, "the bounds themselves");
}

static void test_unbounded(void)
{
	static const struct opt one[] = {
		{ "count", 'n', OPT_INT, offsetof(struct got, n), "N", "x", NULL, 0, 0 },
		{ "wait", 0, OPT_DURATION, offsetof(struct got, wait), "TIME", "x", NULL, 1e9,
		    9e18 },
	};
	struct opt_spec s = { .prog = "p", .about = "x", .opts = one, .nopts = 2 };

	parse_as(&s, (const char *const[]){ "-n", "-9223372036854775808", NULL });
	ok(GO && run.got.n == INT64_MIN, "no bounds: every integer");
	parse_as(&s, (const char *const[]){ "-n", "9223372036854775808", NULL });
	ok(run.result == OPT_EXIT_USAGE && strstr(run.err, "must be an integer, got"), "%s",
	    run.err);
	parse_as(&s, (const char *const[]){ "--wait", "1ms", NULL });
	ok(run.result == OPT_EXIT_USAGE && strstr(run.err, "30s, at least 1s, got"), "%s", run.err);
}

static void test_help(void)
{
	char *want = mem_printf("prog " PSKIT_VERSION " (protocol 1, libsodium %s)\n",
	    sodium_version_string());

	parse("-q", "-h", "--nonsense");
	ok(run.result == OPT_EXIT_OK && !*run.err, "-h is answered on stdout");
	ok(strncmp(run.out, "usage: prog sub [options] FILE...\nDoes a thing.\n", 47) == 0 &&
	        strstr(run.out, "prog sub -q x    # quietly") &&
	        !strstr(run.out, "At great length."),
	    "-h: usage and examples, not the whole");
	for (size_t i = 0; i < spec.nopts; i++)
		ok(strstr(run.out, table[i].name) && strstr(run.out, table[i].help),
		    "-h names --%s", table[i].name);
	ok(strstr(run.out, "  -F, --file FILE") && strstr(run.out, "      --rate X") &&
	        strstr(run.out, "by which way (tcp|unix|shm)"),
	    "-h: letters, arguments, choices");
	parse("--help");
	ok(run.result == OPT_EXIT_OK && strstr(run.out, "At great length.") &&
	        strstr(run.out, "# quietly"),
	    "--help shows all options");
	parse("--version");
	ok(run.result == OPT_EXIT_OK && strcmp(run.out, want) == 0, "--version: %s", run.out);
	parse("--ps-complete");
	ok(run.result == OPT_EXIT_OK &&
	        strcmp(run.out,
	            "--quiet\n--force\n--file\n--count\n--rate\n--bytes\n"
	            "--wait\n--via\n--set\n--help\n--version\n") == 0,
	    "--ps-complete lists the long options");
	parse("--file", "-h");
	ok(GO && strcmp(run.got.file, "-h") == 0, "-h as a value is a value");
	free(want);
}

int main(void)
{
	test_forms();
	test_operands();
	test_counts();
	test_unknown();
	test_unknown_more();
	test_values();
	test_unbounded();
	test_help();
	opt_list_release(&run.got.set);
	return tap_done();
}
