/* SPDX-License-Identifier: ISC */
/* Look-ups in Redis' protocol, of a source with a sparse and a dense table: the bytes of the answers,
 * pipelines, bytes that arrive one by one, and limits. */
#include <stdlib.h>
#include <string.h>

#include "serving/origin.h"
#include "serving/resp_answer.h"
#include "tap.h"

static struct table tables[] = {
	{ .name = "v", .sparse = true, .cols = 2 },
	{ .name = "w", .rows = 3, .cols = 1 },
};
static struct layout layout = { .table = tables, .ntables = 2 };
static size_t reads;

static const struct layout *get_layout(const struct param_source *s)
{
	(void)s;
	return &layout;
}

/* Odd rows exist. */
static enum err_code find_rows(struct param_source *s, const struct table *t, const uint64_t *ids,
    size_t n, bool *there, float *dst, struct err *e)
{
	(void)s;
	(void)e;
	reads += dst != NULL;
	for (size_t i = 0; i < n; i++) {
		there[i] = ids[i] % 2;
		for (uint32_t k = 0; dst && k < t->cols; k++)
			dst[i * t->cols + k] = (float)ids[i] + (float)k / 2;
	}
	return ERR_OK;
}

static enum err_code lend_dense(struct param_source *s, const struct table *t, const float **out,
    struct err *e)
{
	static const float w[] = { 0.5f, -1, 4 };

	(void)s;
	(void)t;
	(void)e;
	*out = w;
	return ERR_OK;
}

static enum err_code do_nothing(struct param_source *s, struct err *e)
{
	(void)s;
	(void)e;
	return ERR_OK;
}

static int64_t get_age(const struct served_origin *o, const struct served_model *m)
{
	(void)o;
	(void)m;
	return 5000000;
}

static struct param_source source = { .ops = &(const struct param_source_ops){ .layout = get_layout,
	                                  .find_rows = find_rows,
	                                  .lend_dense = lend_dense,
	                                  .wait = do_nothing } };
static struct served_origin origin = { &(const struct served_origin_ops){ .age = get_age } };
static struct served_model model = { .source = &source,
	.version = "step-7",
	.number = 1,
	.origin = &origin };
static struct resp_figures figures;

/* The answers to all bytes, of which `step` arrive at a time. */
static struct buf answers(struct resp_answerer *a, const char *text, size_t n, size_t step,
    bool *end)
{
	struct resp_client c = { .parser = { .bulk = -1 } };
	struct buf out = BUF_INIT;
	size_t at = 0, there = 0, used;

	*end = false;
	while (there < n && !*end) {
		there = n - there < step ? n : there + step;
		while (resp_answer(a, &c, &model, (const uint8_t *)text + at, there - at, &used,
		    &out, end))
			at += used;
		at += used;
	}
	resp_parser_release(&c.parser);
	return out;
}

static void answer_is(struct resp_answerer *a, const char *text, const char *want, size_t n,
    bool ends)
{
	for (size_t step = 1; step <= 100; step += 33) {
		bool end;
		struct buf out = answers(a, text, strlen(text), step, &end);
		bool good = out.len == n && memcmp(out.data, want, n) == 0 && end == ends;

		ok(good, "%.*s.., %zu bytes at a time", (int)strcspn(text, "\r"), text, step);
		if (!good)
			printf("# got %.*s\n", (int)out.len, (char *)out.data);
		buf_release(&out);
	}
}

#define IS(text, want)   answer_is(a, text, want, sizeof want - 1, false)
#define ENDS(text, want) answer_is(a, text, want, sizeof want - 1, true)

static void test_raw(void)
{
	struct resp_answerer *a = resp_answerer_new(&figures, false, NULL);

	IS("*2\r\n$3\r\nGET\r\n$3\r\nv:1\r\n", "$8\r\n\0\0\x80\x3f\0\0\xc0\x3f\r\n");
	IS("GET v:2\r\nget w:0\r\nGET w:3\r\nGET x:1\r\nGET v\r\nGET v:01\r\nGET v:-1\r\n",
	    "$-1\r\n$4\r\n\0\0\0\x3f\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n");
	IS("MGET v:1 v:2 w:1\r\n",
	    "*3\r\n$8\r\n\0\0\x80\x3f\0\0\xc0\x3f\r\n$-1\r\n$4\r\n\0\0\x80\xbf\r\n");
	IS("EXISTS v:1 v:2 w:2 w v\r\nHLEN w\r\nHEXISTS w 2\r\nHEXISTS w 3\r\nHEXISTS v 3\r\n",
	    ":3\r\n:3\r\n:1\r\n:0\r\n:1\r\n");
	IS("PING\r\nPING hi\r\n\r\nSELECT 0\r\nSELECT 1\r\n",
	    "+PONG\r\n$2\r\nhi\r\n+OK\r\n-ERR DB index is out of range\r\n");
	IS("GET\r\nHGET w\r\nSET a b\r\nFOO a b\r\nAUTH x\r\n",
	    "-ERR wrong number of arguments for 'get' command\r\n"
	    "-ERR wrong number of arguments for 'hget' command\r\n"
	    "-READONLY You can't write against a read only replica.\r\n"
	    "-ERR unknown command 'FOO', with args beginning with: 'a' 'b' \r\n"
	    "-ERR AUTH <password> called without any password configured for the default user. Are you "
	    "sure your configuration is correct?\r\n");
	IS("CLIENT SETNAME me\r\nCLIENT GETNAME\r\nCOMMAND DOCS\r\nCONFIG GET save\r\n",
	    "+OK\r\n$2\r\nme\r\n*0\r\n*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
	ENDS("QUIT\r\nPING\r\n", "+OK\r\n");
	ENDS("PING\r\n*1\r\n!", "+PONG\r\n-ERR Protocol error: expected '$'\r\n");
	ENDS("*99999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n");
	ENDS("*1\r\n$99999999\r\n", "-ERR Protocol error: invalid bulk length\r\n");
	resp_answerer_free(a);
}

static void test_text(void)
{
	struct resp_answerer *a = resp_answerer_new(&figures, true, NULL);

	IS("GET v:7\r\nHGETALL w\r\nHGETALL none\r\n",
	    "$5\r\n7 7.5\r\n*6\r\n$1\r\n0\r\n$3\r\n0.5\r\n$1\r\n1\r\n$2\r\n-1\r\n$1\r\n2\r\n$1\r\n4\r\n*0\r\n");
	IS("HMGET w 2 7\r\nHMGET none 1\r\nHGET v 9\r\n",
	    "*2\r\n$1\r\n4\r\n$-1\r\n*1\r\n$-1\r\n$5\r\n9 9.5\r\n");
	IS("HGETALL v\r\n",
	    "-ERR the table is sparse: only rows that are named can be read, by GET, MGET, HGET "
	    "or HMGET\r\n");
	resp_answerer_free(a);
}

/* All that has arrived is read together, and long pipelines are answered in parts. */
static void test_pipelines(void)
{
	struct resp_answerer *a = resp_answerer_new(&figures, false, NULL);
	struct buf in = BUF_INIT, out;
	size_t lines = 200000;
	bool end;

	for (int i = 0; i < 50; i++)
		buf_printf(&in, "GET v:%d\r\n", i);
	reads = 0;
	out = answers(a, (char *)in.data, in.len, in.len, &end);
	ok(reads == 1, "50 commands that have arrived are one read");
	buf_release(&out);
	buf_clear(&in);
	for (size_t i = 0; i < lines; i++)
		buf_puts(&in, "GET v:1\r\n");
	reads = 0;
	out = answers(a, (char *)in.data, in.len, in.len, &end);
	ok(out.len == lines * 14 && reads > 2 && reads < 20,
	    "a long pipeline is answered in %zu parts", reads);
	buf_release(&out);
	buf_release(&in);
	resp_answerer_free(a);
}

int main(void)
{
	test_raw();
	test_text();
	test_pipelines();
	return tap_done();
}
