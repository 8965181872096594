/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/work/cmd.h"
#include "cmd/work/model.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/plain.h"
#include "format/stream.h"
#include "tool/neighbours.h"

/* The command nearest: prints the nearest rows of a table. */

/* Queries that share a pass over the table. */
#define BATCH 64u

struct options {
	struct where where;
	bool json;
	int64_t k;
	const char *metric, *among, *from, *exclude;
	struct opt_list rated;
};

static const struct opt opts[] = {
	WHERE_OPTS(struct options),
	{ "top", 'k', OPT_INT, offsetof(struct options, k), "K",
	    "rows to print for each query (10)", NULL, 1, 1000000 },
	{ "metric", 0, OPT_CHOICE, offsetof(struct options, metric), "METRIC",
	    "the score of a row (dot for items of a user, else cosine)", "dot|cosine", 0, 0 },
	{ "among", 0, OPT_STR, offsetof(struct options, among), "KIND",
	    "find rows of this kind: user or item, word or predicted", NULL, 0, 0 },
	{ "from", 0, OPT_STR, offsetof(struct options, from), "FILE",
	    "read more queries from a file, one a line; - is stdin", NULL, 0, 0 },
	{ "exclude", 0, OPT_STR, offsetof(struct options, exclude), "FILE",
	    "do not find the rows in this file, one a line", NULL, 0, 0 },
	{ "rated", 0, OPT_LIST, offsetof(struct options, rated), "DATA",
	    "do not find items that the user has rated in these data", NULL, 0, 0 },
	{ "json", 0, OPT_FLAG, offsetof(struct options, json), NULL, "print a JSON object a query",
	    NULL, 0, 0 },
};

static const struct opt_spec spec = {
	.prog = "ps-work nearest",
	.args = "[MODEL] TABLE [QUERY ...]",
	.about =
	    "Print the rows of a table that are nearest to a row or to a vector: exactly, by comparing all.",
	.more =
	    "A QUERY is the id of a row (7), its name (king, item=7, city=Paris), or a vector (0.5,-1,2).\n"
	    "Each line has the query, a tab, the name or the id of a row, a tab, and its score.\n"
	    "For models of ratings (mf, bpr, warp), the items nearest to an item are those that are alike, and the\n"
	    "items nearest to a user those with the highest scores for that user.\n"
	    "MODEL, or -C, is a run directory (also of a finished run), a checkpoint, or a model file.",
	.examples = "  ps-work nearest words.safetensors v king -k 5\n"
	            "  ps-work nearest -C demo.run v user=7 --rated ratings.csv\n"
	            "  ps-work nearest model.safetensors v --from users.txt --json\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.min_args = 0,
	.max_args = -1,
};

/* ---- queries in a file ---- */

/* Lines of a file that are read as they arrive. */
struct lines {
	int fd; /* -1: there is no file */
	const char *name;
	struct buf text;
	size_t at; /* in text */
	bool ended;
};

static enum err_code open_lines(struct lines *in, const char *path, struct err *e)
{
	*in = (struct lines){ .fd = -1, .name = path, .text = BUF_INIT };
	if (!path)
		return ERR_OK;
	in->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	return in->fd < 0 ? err_sys(e, ERR_IO, "cannot open %s", path) : ERR_OK;
}

static void close_lines(struct lines *in)
{
	if (in->fd > STDIN_FILENO)
		close(in->fd);
	buf_release(&in->text);
}

/* The next line that has arrived, without its end; NULL: no whole line is there. Empty lines are left
 * out. */
static char *take_line(struct lines *in)
{
	while (in->at < in->text.len) {
		char *line = (char *)in->text.data + in->at,
		     *end = memchr(line, '\n', in->text.len - in->at);

		if (!end)
			return NULL;
		*end = '\0';
		in->at += (size_t)(end - line) + 1;
		if (end > line && end[-1] == '\r')
			end[-1] = '\0';
		if (*line)
			return line;
	}
	return NULL;
}

/* Waits until more of the file has arrived, or it has ended. Lines that were taken are gone. */
static enum err_code read_lines(struct lines *in, struct err *e)
{
	char piece[65536];
	ssize_t got;

	buf_consume(&in->text, in->at);
	in->at = 0;
	if (in->text.len > STREAM_LINE_MAX)
		return err_set(e, ERR_LIMIT, "%s: a line is longer than %zu bytes", in->name,
		    STREAM_LINE_MAX);
	do
		got = read(in->fd, piece, sizeof piece);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return err_sys(e, ERR_IO, "cannot read %s", in->name);
	in->ended = got == 0;
	if (in->ended && in->text.len)
		buf_puts(&in->text, "\n"); /* the last line may lack it */
	buf_append(&in->text, piece, (size_t)got);
	return ERR_OK;
}

/* ---- output ---- */

struct output {
	const struct neighbours *rows;
	bool json;
	struct buf text;
};

static void put_line(struct output *o, const char *query, const struct nearest_hit *hit)
{
	char *name = neighbours_name(o->rows, hit->id);

	plain_put_tsv_cell(&o->text, query);
	buf_puts(&o->text, "\t");
	if (name)
		plain_put_tsv_cell(&o->text, name);
	else
		buf_printf(&o->text, "%llu", (unsigned long long)hit->id);
	buf_printf(&o->text, "\t%.6g\n", hit->score);
	free(name);
}

static void put_object(struct output *o, const char *query, const struct nearest_hit *hit, size_t n)
{
	json_t *object = json_pack("{s:o, s:o}", "query", json_of_text(query), "nearest",
	    neighbours_json(o->rows, hit, n));
	char *text;

	text = json_text(object);
	buf_printf(&o->text, "%s\n", text);
	free(text);
	json_decref(object);
}

static enum err_code put_answer(void *ctx, const char *query, const struct nearest_hit *hit,
    size_t n, struct err *e)
{
	struct output *o = ctx;

	(void)e;
	if (o->json)
		put_object(o, query, hit, n);
	for (size_t i = 0; !o->json && i < n; i++)
		put_line(o, query, &hit[i]);
	return ERR_OK;
}

static enum err_code answer_batch(struct neighbours *x, const struct options *o,
    const char *const *query, size_t n, struct err *e)
{
	struct output out = { .rows = x, .json = o->json, .text = BUF_INIT };
	enum err_code rc = neighbours_ask(x, query, n, (size_t)o->k, put_answer, &out, e);

	if (!rc)
		rc = file_write_all(STDOUT_FILENO, out.text.data, out.text.len, e);
	buf_release(&out.text);
	return rc;
}

/* ---- the command ---- */

static enum err_code exclude_lines(struct neighbours *x, const char *path, struct err *e)
{
	struct lines in;
	enum err_code rc = open_lines(&in, path, e);

	while (!rc && in.fd >= 0 && !in.ended) {
		rc = read_lines(&in, e);
		for (char *line; !rc && (line = take_line(&in)) != NULL;)
			rc = neighbours_exclude(x, line, e);
	}
	close_lines(&in);
	return rc ? err_prefix(e, "%s", path) : ERR_OK;
}

/* Answers the operands, and then the lines of the file, in batches of those that have arrived. first: the
 * line that has been taken already; NULL: none has. */
static enum err_code answer_all(struct neighbours *x, const struct options *o,
    const char *const *operand, size_t n, struct lines *in, const char *first, struct err *e)
{
	const char *batch[BATCH];
	size_t have = 0;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i += BATCH)
		rc = answer_batch(x, o, operand + i, n - i < BATCH ? n - i : BATCH, e);
	while (!rc && in->fd >= 0) {
		const char *line = first ? first : take_line(in);

		first = NULL;
		if (line)
			batch[have++] = line;
		if (have == BATCH || (!line && have > 0)) {
			rc = answer_batch(x, o, batch, have, e);
			have = 0;
		}
		if (!rc && !line && in->ended)
			break;
		if (!rc && !line)
			rc = read_lines(in, e);
	}
	return rc;
}

static enum err_code find_nearest(const struct tool_model *m, const void *options, int nargs,
    char **argv, struct err *e)
{
	const struct options *o = options;
	const char *const *query = (const char *const *)argv + 2;
	struct neighbours_spec what = { .metric = o->metric, .among = o->among };
	struct neighbours *x = NULL;
	size_t n = nargs > 1 ? (size_t)nargs - 1 : 0;
	char *line = NULL;
	struct lines in;
	enum err_code rc;

	if (nargs < 1)
		return err_set(e, ERR_USAGE, "name a table (see ps-work nearest -h)");
	if (!n && !o->from)
		return err_set(e, ERR_USAGE,
		    "give a query, the id, the name or the vector of a row, or --from FILE");
	what.table = argv[1];
	rc = open_lines(&in, o->from, e);
	/* The first query decides which rows are found. */
	while (!rc && !n && !(line = take_line(&in)) && !in.ended)
		rc = read_lines(&in, e);
	what.first = n ? query[0] : line;
	if (!rc && !what.first)
		rc = err_set(e, ERR_USAGE, "%s has no query", o->from);
	if (!rc)
		rc = neighbours_open(m, &what, &x, e);
	if (!rc && o->rated.n)
		rc = neighbours_rated(x, o->rated.item, o->rated.n, e);
	if (!rc && o->exclude)
		rc = exclude_lines(x, o->exclude, e);
	if (!rc)
		rc = answer_all(x, o, query, n, &in, line, e);
	neighbours_close(x);
	close_lines(&in);
	return rc;
}

int cmd_nearest(int argc, char **argv)
{
	struct options o = { .k = 10 };
	int nargs, code = where_parse(&spec, &o, argc, argv, &nargs);

	code = code ? code - 1 : model_run(&spec, &o.where, &o, nargs, argv, find_nearest);
	opt_list_release(&o.rated);
	return code;
}
