/* SPDX-License-Identifier: ISC */
/* Options of data paths as keys of a job. */
#include "conf/conf_data.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "tap.h"

static struct err e;

/* A job with these assignments. */
static enum err_code make_job(const char *const *set, size_t n, struct conf *c)
{
	json_t *file = json_pack("{s:{s:s}}", "job", "model", "linear");
	enum err_code rc = conf_from_json(file, c, &e);

	for (size_t i = 0; !rc && i < n; i++)
		rc = conf_set(c, set[i], &e);
	json_decref(file);
	return rc;
}

/* The path with the options that the assignments give; NULL: it is refused. */
static char *complete(const char *path, const char *const *set, size_t n)
{
	struct conf_strs paths = { 0 };
	struct conf c;
	char *out = NULL;

	e = (struct err){ 0 };
	if (make_job(set, n, &c))
		return NULL;
	if (conf_data_paths(&c.job, &path, 1, &paths, &e) == ERR_OK)
		out = strdup(paths.item[0]);
	conf_data_release(&paths);
	conf_release(&c);
	return out;
}

static void check_path(const char *want, const char *path, const char *const *set, size_t n,
    const char *what)
{
	char *got = complete(path, set, n);

	if (!ok(got && strcmp(got, want) == 0, "%s", what))
		printf("# %s, %s\n", got ? got : "refused", e.msg);
	free(got);
}

static void check_refused(const char *text, const char *path, const char *const *set, size_t n,
    const char *what)
{
	char *got = complete(path, set, n);

	if (!ok(!got && strstr(e.msg, text), "%s", what))
		printf("# %s, %s\n", got ? got : "refused", e.msg);
	free(got);
}

static void test_paths(void)
{
	static const char *const label[] = { "label=y" },
	                         *const many[] = { "label=y & z", "ignore=a,b", "text=body",
		                         "lists=kinds", "bits=18" },
	                         *const wrong[] = { "missing=gone" }, *const vw[] = { "pairs=ab" };

	check_path("/d/a.csv", "/d/a.csv", NULL, 0, "without keys a path stays");
	check_path("/d/a.csv?label=y", "/d/a.csv", label, 1, "a key is an option");
	check_path("/d/a.csv?ignore=q&label=y", "/d/a.csv?ignore=q", label, 1,
	    "it follows the options that the path has");
	check_path("/d/a.csv?label=y", "/d/a.csv?label=y", label, 1, "an equal option stays");
	check_path("/d/is it?.csv?label=y", "/d/is it?.csv", label, 1,
	    "a ? of a name is no option");
	check_path("/d/a.csv?label=y%20%26%20z&ignore=a,b&text=body&lists=kinds&bits=18",
	    "/d/a.csv", many, sizeof many / sizeof many[0],
	    "all keys, with characters of paths as numbers");
	check_path("/d/a.vw?pairs=ab", "/d/a.vw", vw, 1, "pairs is a key");
	check_refused(
	    "job.data: /d/a.csv?label=z has label=z, but job.label is \"y\": remove one of them",
	    "/d/a.csv?label=z", label, 1, "a contradiction is refused, and named");
	check_refused("\"gone\"", "/d/a.csv", wrong, 1,
	    "values of keys are checked as options are");
	check_refused("job.data: /d/a.csv?lable=z", "/d/a.csv?lable=z", label, 1,
	    "an unknown option is refused");
}

static void put_pair(void *ctx, const char *key, const char *value)
{
	buf_printf(ctx, "%s=%s;", key, value);
}

static void check_move(const char *path, const char *rest, const char *moved)
{
	struct buf got = BUF_INIT;
	char *left = conf_data_move_options(path, put_pair, &got, &e);

	buf_puts(&got, "");
	if (!ok(left && strcmp(left, rest) == 0 && strcmp((char *)got.data, moved) == 0,
	        "the options of %s are moved", path))
		printf("# %s, %s\n", left ? left : e.msg, (char *)got.data);
	free(left);
	buf_release(&got);
}

static void test_moves(void)
{
	char *path = conf_data_add_option("/d/a.csv?head=5", "label", "a b");

	ok(strcmp(path, "/d/a.csv?head=5&label=a%20b") == 0, "an option is added: %s", path);
	free(path);
	check_move("/d/a.csv", "/d/a.csv", "");
	check_move("/d/a.csv?label=y%20z&scale=standard", "/d/a.csv", "label=y z;scale=standard;");
	check_move("/d/a.csv?head=50&label=y&follow=yes", "/d/a.csv?head=50&follow=yes",
	    "label=y;");
	check_move("/d/a.csv?user=u&item=i", "/d/a.csv", "user=u;item=i;");
	check_move("kafka://h/t?format=jsonl&group=m", "kafka://h/t?group=m", "format=jsonl;");
	ok(!conf_data_move_options("/d/a.csv?lable=y", put_pair, NULL, &e) && e.code == ERR_CONFIG,
	    "wrong options are refused");
	ok(conf_data_has_key("scale") && conf_data_has_key("pairs") && !conf_data_has_key("head"),
	    "some options are keys");
}

/* Are these evaluation data accepted? */
static bool accepts_eval(const char *data, const char *eval, const char *set)
{
	const char *const sets[] = { data, eval, set };
	struct conf c;
	bool accepted;

	e = (struct err){ 0 };
	if (make_job(sets, set ? 3 : 2, &c)) {
		printf("# %s\n", e.msg);
		return false;
	}
	accepted = conf_data_check_eval(&c.job, &e) == ERR_OK;
	conf_release(&c);
	return accepted;
}

static void test_eval(void)
{
	static const char *const held[] = { "label", "weight", "ignore", "categories", "text",
		"lists", "pairs" };

	ok(accepts_eval("data=/d/a.csv", "eval=/d/b.csv?label=y", "label=y"), "an equal option");
	ok(accepts_eval("data=/d/a.csv?label=y", "eval=/d/b.csv", NULL), "an inherited one");
	ok(accepts_eval("data=/d/a.csv", "eval=/d/b.jsonl?format=jsonl", "format=csv"),
	    "another format, which belongs to the files");
	ok(accepts_eval("data=/d/a.csv", "eval=/d/b.csv?label=3", "label=y"),
	    "the number of a column");
	for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
		char data[64], eval[64], key[64];

		snprintf(data, sizeof data, "data=/d/a.csv?%s=x", held[i]);
		snprintf(eval, sizeof eval, "eval=/d/b.csv?%s=z", held[i]);
		snprintf(key, sizeof key, "%s=x", held[i]);
		ok(!accepts_eval("data=/d/a.csv", eval, key) && strstr(e.msg, "job.eval: /d/b.csv"),
		    "eval has another %s than the key: %s", held[i], e.msg);
		ok(!accepts_eval(data, eval, NULL) && strstr(e.msg, "but /d/a.csv?"),
		    "eval has another %s than the path: %s", held[i], e.msg);
	}
}

/* The options that job.data loses by these assignments, of which the first one is the file's. */
static bool loses(const char *want, const char *data, const char *const *set, size_t n)
{
	struct conf before, now;
	char *lost;
	bool is;

	if (make_job(&data, 1, &before) || make_job(set, n, &now))
		return false;
	lost = conf_data_lost_options(&before.job, &now.job);
	is = want ? lost && strcmp(lost, want) == 0 : !lost;
	if (!is)
		printf("# %s\n", lost ? lost : "none");
	free(lost);
	conf_release(&before);
	conf_release(&now);
	return is;
}

static void test_lost_options(void)
{
	static const char file[] = "data=/d/a.csv?label=y&ignore=z",
	                  stream[] = "data=/d/s?follow=yes";
	static const char *const other[] = { "data=/d/b.csv" },
	                         *const own[] = { "data=/d/b.csv?id=i" },
	                         *const key[] = { "data=/d/b.csv", "label=q" };

	ok(loses("?label=y&ignore=z", file, other, 1),
	    "another path lacks the options of the first one");
	ok(loses(NULL, file, own, 1), "a path with options has those that are meant");
	ok(loses("?ignore=z", file, key, 2), "a key stands for an option");
	ok(loses(NULL, stream, other, 1), "a file that replaces a stream is none");
	ok(loses(NULL, "data=/d/a.csv", other, 1), "no options");
}

int main(void)
{
	test_lost_options();
	test_paths();
	test_moves();
	test_eval();
	return tap_done();
}
