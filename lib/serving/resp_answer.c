/* SPDX-License-Identifier: ISC */
#include "serving/resp_answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/clock.h"
#include "core/endian.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/version.h"
#include "serving/bearer_tokens.h"

/* Rows of one table that the present commands need. */
struct wanted {
	const struct table *table;
	uint64_t *id;
	size_t n, room;
	float *row;  /* n * cols */
	bool *there; /* NULL: all are */
	/* of a dense table: all values */
	const float *dense;
	float *own;
	int64_t read; /* clock_now of the last read into `own` */
	enum err_code failed;
};

/* An answer in the order of the commands: bytes of `text`, then perhaps a row. */
struct piece {
	size_t end;   /* of the bytes in `text` that come before the row */
	size_t table; /* number of the struct wanted; SIZE_MAX: there is no row */
	uint64_t row; /* its place among the wanted rows; of a dense table, the row */
};

struct resp_answerer {
	struct resp_figures *figures;
	bool text_form;
	struct bearer_tokens *tokens;
	/* of the present call */
	struct served_model *model;
	struct resp_client *client;
	const uint8_t *input;
	uint64_t number; /* of the model that `wanted` is about */
	struct wanted *wanted;
	size_t nwanted;
	struct piece *piece;
	size_t npieces, room;
	struct buf text;
	size_t expected; /* bytes of all answers so far, about */
	bool end;
};

struct resp_answerer *resp_answerer_new(struct resp_figures *figures, bool text,
    struct bearer_tokens *tokens)
{
	struct resp_answerer *a = mem_alloc(sizeof *a);

	*a = (struct resp_answerer){ .figures = figures,
		.text_form = text,
		.tokens = tokens,
		.text = BUF_INIT };
	return a;
}

static void forget_tables(struct resp_answerer *a)
{
	for (size_t i = 0; i < a->nwanted; i++) {
		free(a->wanted[i].id);
		free(a->wanted[i].row);
		free(a->wanted[i].there);
		free(a->wanted[i].own);
	}
	free(a->wanted);
	a->wanted = NULL;
	a->nwanted = 0;
}

void resp_answerer_free(struct resp_answerer *a)
{
	if (!a)
		return;
	forget_tables(a);
	free(a->piece);
	buf_release(&a->text);
	free(a);
}

/* ---- writing ---- */

static void put_error(struct resp_answerer *a, const char *text)
{
	buf_printf(&a->text, "-%s\r\n", text);
}

static void put_number(struct resp_answerer *a, uint64_t n)
{
	buf_printf(&a->text, ":%" PRIu64 "\r\n", n);
}

static void put_bulk(struct resp_answerer *a, const void *p, size_t n)
{
	buf_printf(&a->text, "$%zu\r\n", n);
	buf_append(&a->text, p, n);
	buf_puts(&a->text, "\r\n");
}

static void put_array(struct resp_answerer *a, size_t n)
{
	buf_printf(&a->text, "*%zu\r\n", n);
}

static void put_ok(struct resp_answerer *a)
{
	buf_puts(&a->text, "+OK\r\n");
}

static void put_nil(struct resp_answerer *a)
{
	buf_puts(&a->text, "$-1\r\n");
}

static void put_row(struct resp_answerer *a, size_t table, uint64_t row)
{
	a->piece = mem_grow(a->piece, &a->room, a->npieces + 1, sizeof *a->piece);
	a->piece[a->npieces++] = (struct piece){ a->text.len, table, row };
	a->expected += a->wanted[table].table->cols * (a->text_form ? 12 : 4) + 16;
}

/* ---- arguments ---- */

static const char *arg(const struct resp_answerer *a, size_t i, size_t *n)
{
	const struct resp_arg *x = &a->client->parser.arg[i];

	*n = x->n;
	return (const char *)a->input + x->at;
}

static bool arg_is(const struct resp_answerer *a, size_t i, const char *word)
{
	size_t n;
	const char *p = arg(a, i, &n);

	return i < a->client->parser.n && n == strlen(word) && strncasecmp(p, word, n) == 0;
}

/* Parses digits alone. */
static bool parse_id(const char *p, size_t n, uint64_t *out)
{
	uint64_t v = 0;

	if (n == 0 || n > 20 || (n > 1 && *p == '0'))
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned digit = (unsigned)(p[i] - '0');

		if (digit > 9 || v > (UINT64_MAX - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*out = v;
	return true;
}

/* The number of the table of this name; SIZE_MAX: there is none. */
static size_t find_table(const struct resp_answerer *a, const char *name, size_t n)
{
	for (size_t i = 0; i < a->nwanted; i++)
		if (strncmp(a->wanted[i].table->name, name, n) == 0 &&
		    a->wanted[i].table->name[n] == '\0')
			return i;
	return SIZE_MAX;
}

/* Finds "TABLE:ROW". */
static bool find_key(const struct resp_answerer *a, const char *key, size_t n, size_t *table,
    uint64_t *row)
{
	const char *colon = memrchr(key, ':', n);

	if (!colon || !parse_id(colon + 1, (size_t)(key + n - colon - 1), row))
		return false;
	*table = find_table(a, key, (size_t)(colon - key));
	return *table != SIZE_MAX &&
	    (a->wanted[*table].table->sparse || *row < a->wanted[*table].table->rows);
}

/* Has this row answered when all rows have been read. */
static void want_row(struct resp_answerer *a, size_t table, uint64_t row)
{
	struct wanted *w = &a->wanted[table];

	if (!w->table->sparse) {
		put_row(a, table, row);
		return;
	}
	w->id = mem_grow(w->id, &w->room, w->n + 1, sizeof *w->id);
	w->id[w->n] = row;
	put_row(a, table, w->n++);
}

/* ---- look-ups ---- */

static void get_key(struct resp_answerer *a, size_t i)
{
	size_t n, table;
	const char *key = arg(a, i, &n);
	uint64_t row;

	if (find_key(a, key, n, &table, &row)) {
		want_row(a, table, row);
	} else {
		a->figures->misses++;
		put_nil(a);
	}
}

static void run_get(struct resp_answerer *a)
{
	get_key(a, 1);
}

/* May `rows` more rows of this many columns be in the answer to one command? Else it is an error. */
static bool may_answer(struct resp_answerer *a, uint64_t rows, uint64_t cols)
{
	if (rows <= RESP_ANSWER_MAX / (cols * (a->text_form ? 16 : 4) + 48))
		return true;
	put_error(a, "ERR the answer is too long: read fewer rows by one command");
	return false;
}

static uint64_t most_columns(const struct resp_answerer *a)
{
	uint64_t most = 1;

	for (size_t i = 0; i < a->nwanted; i++)
		most = a->wanted[i].table->cols > most ? a->wanted[i].table->cols : most;
	return most;
}

static void run_mget(struct resp_answerer *a)
{
	if (!may_answer(a, a->client->parser.n - 1, most_columns(a)))
		return;
	put_array(a, a->client->parser.n - 1);
	for (size_t i = 1; i < a->client->parser.n; i++)
		get_key(a, i);
}

/* Does the source have this row now? */
static bool row_exists(struct resp_answerer *a, size_t table, uint64_t row)
{
	struct param_source *s = a->model->source;
	const struct table *t = a->wanted[table].table;
	bool there = true;
	struct err e;

	if (!t->sparse)
		return row < t->rows;
	return !s->ops->find_rows || (!s->ops->find_rows(s, t, &row, 1, &there, NULL, &e) && there);
}

static void run_exists(struct resp_answerer *a)
{
	uint64_t found = 0, row;
	size_t n, table;

	for (size_t i = 1; i < a->client->parser.n; i++) {
		const char *key = arg(a, i, &n);

		table = find_table(a, key, n);
		found += (table != SIZE_MAX && !a->wanted[table].table->sparse) ||
		    (find_key(a, key, n, &table, &row) && row_exists(a, table, row));
	}
	put_number(a, found);
}

/* The dense table of argument 1. False: it has been answered: by `none` where there is no table, or by an
 * error. */
static bool take_hash(struct resp_answerer *a, const char *none, size_t *table)
{
	size_t n;
	const char *name = arg(a, 1, &n);

	*table = find_table(a, name, n);
	if (*table == SIZE_MAX) {
		a->figures->misses++;
		buf_puts(&a->text, none);
		return false;
	}
	return true;
}

static void get_field(struct resp_answerer *a, size_t table, size_t i)
{
	size_t n;
	const char *field = arg(a, i, &n);
	uint64_t row;

	if (parse_id(field, n, &row) &&
	    (a->wanted[table].table->sparse || row < a->wanted[table].table->rows)) {
		want_row(a, table, row);
	} else {
		a->figures->misses++;
		put_nil(a);
	}
}

static void run_hget(struct resp_answerer *a)
{
	size_t table;

	if (take_hash(a, "$-1\r\n", &table))
		get_field(a, table, 2);
}

static void run_hmget(struct resp_answerer *a)
{
	size_t fields = a->client->parser.n - 2, n, table;
	const char *name = arg(a, 1, &n);

	table = find_table(a, name, n);
	if (table != SIZE_MAX && !may_answer(a, fields, a->wanted[table].table->cols))
		return;
	put_array(a, fields);
	for (size_t i = 0; i < fields; i++) {
		if (table != SIZE_MAX) {
			get_field(a, table, i + 2);
		} else {
			a->figures->misses++;
			put_nil(a);
		}
	}
}

static void run_hexists(struct resp_answerer *a)
{
	size_t table, n;
	const char *field;
	uint64_t row;

	if (!take_hash(a, ":0\r\n", &table))
		return;
	field = arg(a, 2, &n);
	put_number(a, parse_id(field, n, &row) && row_exists(a, table, row));
}

/* All rows of a dense table. */
static bool take_dense(struct resp_answerer *a, const char *none, size_t *table)
{
	if (!take_hash(a, none, table))
		return false;
	if (!a->wanted[*table].table->sparse)
		return true;
	put_error(a,
	    "ERR the table is sparse: only rows that are named can be read, by GET, MGET, HGET or "
	    "HMGET");
	return false;
}

static void run_hlen(struct resp_answerer *a)
{
	size_t table;

	if (take_dense(a, ":0\r\n", &table))
		put_number(a, a->wanted[table].table->rows);
}

static void run_hgetall(struct resp_answerer *a)
{
	const struct table *t;
	size_t table;

	if (!take_dense(a, "*0\r\n", &table))
		return;
	t = a->wanted[table].table;
	if (!may_answer(a, t->rows, t->cols))
		return;
	put_array(a, 2 * (size_t)t->rows);
	for (uint64_t r = 0; r < t->rows; r++) {
		char digits[24];

		put_bulk(a, digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64, r));
		want_row(a, table, r);
	}
}

/* ---- the connection ---- */

static void run_ping(struct resp_answerer *a)
{
	size_t n;

	if (a->client->parser.n > 1) {
		const char *p = arg(a, 1, &n);

		put_bulk(a, p, n);
	} else {
		buf_puts(&a->text, "+PONG\r\n");
	}
}

static void run_auth(struct resp_answerer *a)
{
	size_t last = a->client->parser.n - 1, n;
	const char *p = arg(a, last, &n);
	char *token;

	if (!a->tokens) {
		put_error(a,
		    "ERR AUTH <password> called without any password configured for the default user. "
		    "Are you sure your configuration is correct?");
		return;
	}
	token = mem_printf("%.*s", (int)n, p);
	if ((last == 1 || arg_is(a, 1, "default")) && strlen(token) == n &&
	    bearer_tokens_have(a->tokens, token)) {
		a->client->authenticated = true;
		put_ok(a);
	} else {
		put_error(a, "WRONGPASS invalid username-password pair or user is disabled.");
	}
	free(token);
}

static void run_select(struct resp_answerer *a)
{
	if (arg_is(a, 1, "0"))
		put_ok(a);
	else
		put_error(a, "ERR DB index is out of range");
}

static void run_quit(struct resp_answerer *a)
{
	put_ok(a);
	a->end = true;
}

static void put_unknown_part(struct resp_answerer *a, const char *command)
{
	size_t n;
	const char *p = arg(a, 1, &n);
	char shown[64];

	for (n = n < sizeof shown - 1 ? n : sizeof shown - 1, shown[n] = '\0'; n > 0; n--)
		shown[n - 1] = (p[n - 1] < ' ' || p[n - 1] > '~') ? '?' : p[n - 1];
	buf_printf(&a->text, "-ERR unknown subcommand '%s'. Try %s HELP.\r\n", shown, command);
}

static void run_client(struct resp_answerer *a)
{
	struct resp_client *c = a->client;
	size_t n;
	const char *p;

	if (arg_is(a, 1, "ID")) {
		put_number(a, c->id);
	} else if (arg_is(a, 1, "GETNAME")) {
		put_bulk(a, c->name, strlen(c->name));
	} else if (arg_is(a, 1, "SETINFO") || arg_is(a, 1, "NO-EVICT") ||
	    arg_is(a, 1, "NO-TOUCH")) {
		put_ok(a);
	} else if (arg_is(a, 1, "SETNAME") && c->parser.n == 3) {
		p = arg(a, 2, &n);
		n = n < sizeof c->name - 1 ? n : sizeof c->name - 1;
		for (size_t i = 0; i < n; i++)
			c->name[i] = p[i] > ' ' && p[i] <= '~' ? p[i] : '?';
		c->name[n] = '\0';
		put_ok(a);
	} else {
		put_unknown_part(a, "CLIENT");
	}
}

/* redis-cli and redis-benchmark ask for these at their start, and do without them. */
static void run_command(struct resp_answerer *a)
{
	put_array(a, 0);
}

static void run_config(struct resp_answerer *a)
{
	size_t n;

	if (!arg_is(a, 1, "GET") || a->client->parser.n < 3) {
		put_unknown_part(a, "CONFIG");
		return;
	}
	put_array(a, 2 * (a->client->parser.n - 2));
	for (size_t i = 2; i < a->client->parser.n; i++) {
		const char *p = arg(a, i, &n);

		put_bulk(a, p, n);
		put_bulk(a, "", 0);
	}
}

static void run_info(struct resp_answerer *a)
{
	const struct resp_figures *f = a->figures;
	struct buf t = BUF_INIT;
	int64_t age = served_age(a->model);

	buf_printf(&t,
	    "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nserver_name:pskit\r\n"
	    "pskit_version:%s\r\nuptime_in_seconds:%lld\r\n"
	    "# Clients\r\nconnected_clients:%" PRIu64 "\r\n"
	    "# Stats\r\ntotal_connections_received:%" PRIu64 "\r\nrejected_connections:%" PRIu64
	    "\r\ntotal_commands_processed:%" PRIu64 "\r\nkeyspace_hits:%" PRIu64
	    "\r\nkeyspace_misses:%" PRIu64
	    "\r\n# Replication\r\nrole:slave\r\nslave_read_only:1\r\n"
	    "# Model\r\nmodel_version:%s\r\nmodel_number:%" PRIu64 "\r\n",
	    PSKIT_VERSION, (long long)((clock_now() - f->begun) / NSEC_PER_SEC), f->connections,
	    f->received, f->refused, f->commands, f->hits, f->misses, a->model->version,
	    a->model->number);
	if (age >= 0)
		buf_printf(&t, "model_age_ms:%lld\r\n", (long long)(age / NSEC_PER_MSEC));
	buf_printf(&t, "values:%s\r\n# Tables\r\n",
	    a->text_form ? "text" : "raw float32, little-endian");
	for (size_t i = 0; i < a->nwanted; i++) {
		const struct table *x = a->wanted[i].table;

		buf_printf(&t, "%s:%s,columns=%u", x->name, x->sparse ? "sparse" : "dense",
		    x->cols);
		if (!x->sparse)
			buf_printf(&t, ",rows=%" PRIu64, x->rows);
		buf_puts(&t, "\r\n");
	}
	put_bulk(a, t.data, t.len);
	buf_release(&t);
}

/* ---- commands ---- */

/* args: how many there must be with the command's name, or, if negative, at least that many. */
static const struct command {
	const char *name;
	int args;
	void (*run)(struct resp_answerer *a);
	bool early; /* also before AUTH */
} commands[] = {
	{ "GET", 2, run_get, false },
	{ "MGET", -2, run_mget, false },
	{ "EXISTS", -2, run_exists, false },
	{ "HGET", 3, run_hget, false },
	{ "HMGET", -3, run_hmget, false },
	{ "HGETALL", 2, run_hgetall, false },
	{ "HEXISTS", 3, run_hexists, false },
	{ "HLEN", 2, run_hlen, false },
	{ "PING", -1, run_ping, false },
	{ "AUTH", -2, run_auth, true },
	{ "SELECT", 2, run_select, false },
	{ "QUIT", -1, run_quit, true },
	{ "CLIENT", -2, run_client, false },
	{ "COMMAND", -1, run_command, false },
	{ "CONFIG", -2, run_config, false },
	{ "INFO", -1, run_info, false },
};

/* Commands of Redis that write, among others. */
static const char *const writes[] = { "SET", "MSET", "SETEX", "SETNX", "DEL", "HSET", "HMSET",
	"HDEL", "INCR", "DECR", "APPEND", "LPUSH", "RPUSH", "SADD", "ZADD", "EXPIRE", "FLUSHALL",
	"FLUSHDB", "RENAME" };

/* "unknown command 'FOO', with args beginning with: 'a' 'b' " */
static void put_unknown(struct resp_answerer *a)
{
	size_t shown = 0;

	for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
		if (arg_is(a, 0, writes[i])) {
			put_error(a, "READONLY You can't write against a read only replica.");
			return;
		}
	buf_puts(&a->text, "-ERR unknown command '");
	for (size_t i = 0; i < a->client->parser.n && shown < 128; i++) {
		size_t n;
		const char *p = arg(a, i, &n);

		buf_puts(&a->text, i ? "'" : "");
		for (size_t k = 0; k < n && shown < 128; k++, shown++) {
			char c = p[k] < ' ' || p[k] > '~' ? '?' : p[k];

			buf_append(&a->text, &c, 1);
		}
		buf_puts(&a->text, i ? "' " : "', with args beginning with: ");
	}
	buf_puts(&a->text, "\r\n");
}

static void run_one(struct resp_answerer *a)
{
	int n = (int)a->client->parser.n;

	a->figures->commands++;
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		const struct command *c = &commands[i];

		if (!arg_is(a, 0, c->name))
			continue;
		if (!a->client->authenticated && !c->early) {
			put_error(a, "NOAUTH Authentication required.");
		} else if (c->args < 0 ? n < -c->args : n != c->args) {
			buf_puts(&a->text, "-ERR wrong number of arguments for '");
			for (const char *p = c->name; *p; p++)
				buf_printf(&a->text, "%c", *p | 0x20);
			buf_puts(&a->text, "' command\r\n");
		} else {
			c->run(a);
		}
		return;
	}
	if (a->client->authenticated)
		put_unknown(a);
	else
		put_error(a, "NOAUTH Authentication required.");
}

/* ---- rows ---- */

/* Takes over the tables of the model, when it is another one. */
static void note_tables(struct resp_answerer *a, struct served_model *m)
{
	const struct layout *l = m->source->ops->layout(m->source);

	a->model = m;
	if (a->nwanted && a->number == m->number)
		return;
	forget_tables(a);
	a->number = m->number;
	a->wanted = mem_array(l->ntables + 1, sizeof *a->wanted);
	for (size_t i = 0; i < l->ntables; i++)
		if (!l->table[i].dropped)
			a->wanted[a->nwanted++] = (struct wanted){ .table = &l->table[i] };
}

static enum err_code read_sparse(struct param_source *s, struct wanted *w, struct err *e)
{
	enum err_code rc;

	w->row = mem_try_array(w->n * w->table->cols, sizeof *w->row);
	w->there = s->ops->find_rows ? mem_array(w->n, sizeof *w->there) : NULL;
	if (!w->row)
		return err_set(e, ERR_NOMEM, "no memory for %zu rows", w->n);
	if (w->there)
		return s->ops->find_rows(s, w->table, w->id, w->n, w->there, w->row, e);
	rc = s->ops->want_rows(s, w->table, w->id, w->n, false, w->row, e);
	return rc ? rc : s->ops->wait(s, e);
}

/* fresh: how old a copy of values that change may be. */
static enum err_code read_dense(struct param_source *s, struct wanted *w, int64_t fresh,
    struct err *e)
{
	enum err_code rc;

	if (w->dense && (!w->own || clock_now() - w->read < fresh))
		return ERR_OK;
	if (s->ops->lend_dense)
		return s->ops->lend_dense(s, w->table, &w->dense, e);
	if (!w->own)
		w->own = mem_try_array((size_t)table_elements(w->table), sizeof *w->own);
	if (!w->own)
		return err_set(e, ERR_NOMEM, "no memory for table \"%s\"", w->table->name);
	rc = s->ops->want_dense(s, w->table, NULL, w->own, e);
	w->dense = rc ? NULL : w->own;
	w->read = clock_now();
	return rc ? rc : s->ops->wait(s, e);
}

static void read_rows(struct resp_answerer *a)
{
	struct param_source *s = a->model->source;
	bool *needed = mem_array(a->nwanted + 1, sizeof *needed);
	struct err e;

	for (size_t i = 0; i < a->npieces; i++)
		needed[a->piece[i].table] = true;
	for (size_t i = 0; i < a->nwanted; i++) {
		struct wanted *w = &a->wanted[i];

		if (needed[i])
			w->failed = w->table->sparse ? read_sparse(s, w, &e)
			                             : read_dense(s, w, a->model->fresh, &e);
	}
	free(needed);
}

static void write_values(struct resp_answerer *a, const float *v, uint32_t n, struct buf *out)
{
	if (a->text_form) {
		struct buf t = BUF_INIT;

		for (uint32_t k = 0; k < n; k++)
			buf_printf(&t, "%s%.9g", k ? " " : "", (double)v[k]);
		buf_printf(out, "$%zu\r\n", t.len);
		buf_append(out, t.data, t.len);
		buf_release(&t);
	} else {
		size_t bytes = (size_t)n * sizeof *v;
		uint8_t *to = buf_reserve(out, bytes + 32);
		size_t head = 0, digits = 1;

		/* "$64\r\n": printf would take longer than all the rest. */
		for (size_t rest = bytes; rest > 9; rest /= 10)
			digits++;
		to[0] = '$';
		for (size_t k = digits, rest = bytes; k > 0; k--, rest /= 10)
			to[k] = (uint8_t)('0' + rest % 10);
		head = digits + 1;
		to[head++] = '\r';
		to[head++] = '\n';
		for (uint32_t k = 0; k < n; k++) {
			uint32_t u;

			memcpy(&u, &v[k], sizeof u);
			put_le32(to + head + 4 * (size_t)k, u);
		}
		buf_commit(out, head + bytes);
	}
	buf_append(out, "\r\n", 2);
}

static void write_row(struct resp_answerer *a, const struct piece *p, struct buf *out)
{
	const struct wanted *w = &a->wanted[p->table];
	uint32_t cols = w->table->cols;

	if (w->failed) {
		buf_puts(out, "-ERR the values are not here yet\r\n");
		return;
	}
	if (w->table->sparse && w->there && !w->there[p->row]) {
		a->figures->misses++;
		buf_append(out, "$-1\r\n", 5);
		return;
	}
	a->figures->hits++;
	write_values(a, (w->table->sparse ? w->row : w->dense) + (size_t)p->row * cols, cols, out);
}

static void write_answers(struct resp_answerer *a, struct buf *out)
{
	size_t at = 0;

	for (size_t i = 0; i < a->npieces; i++) {
		const struct piece *p = &a->piece[i];

		buf_append(out, a->text.data + at, p->end - at);
		at = p->end;
		write_row(a, p, out);
	}
	buf_append(out, a->text.data + at, a->text.len - at);
	for (size_t i = 0; i < a->nwanted; i++) {
		struct wanted *w = &a->wanted[i];

		free(w->row);
		free(w->there);
		w->row = NULL;
		w->there = NULL;
		w->n = 0;
		w->failed = ERR_OK;
	}
	a->npieces = 0;
	buf_clear(&a->text);
}

bool resp_answer(struct resp_answerer *a, struct resp_client *c, struct served_model *m,
    const uint8_t *p, size_t n, size_t *used, struct buf *out, bool *end)
{
	enum resp_result r = RESP_COMMAND;
	const char *why = "";

	*used = 0;
	a->client = c;
	a->expected = 0;
	a->end = false;
	note_tables(a, m);
	c->authenticated = c->authenticated || !a->tokens;
	while (!a->end && a->expected + a->text.len < RESP_OUTPUT) {
		size_t took = 0;

		r = resp_parse(&c->parser, p + *used, n - *used, !c->authenticated, &took, &why);
		if (r != RESP_COMMAND)
			break;
		a->input = p + *used;
		if (c->parser.n)
			run_one(a);
		*used += took;
	}
	if (r == RESP_ERROR) {
		buf_printf(&a->text, "-ERR %s\r\n", why);
		a->end = true;
	}
	if (a->npieces)
		read_rows(a);
	write_answers(a, out);
	*end = a->end;
	return r == RESP_COMMAND && !a->end && *used < n;
}
