/* SPDX-License-Identifier: ISC */
/* Requests for the nearest rows. */
#include "tap.h"

#include <string.h>

#include "serving/nearest_request.h"

static struct nearest_request r;
static struct err e;

static enum err_code parse(const char *body)
{
	e = (struct err){ 0 };
	return nearest_request_parse(body, strlen(body), 100, &r, &e);
}

/* Is the body refused with a sentence that has this in it? */
static void refuses(const char *body, enum err_code code, const char *want)
{
	enum err_code rc = parse(body);

	if (!ok(rc == code && e.code == code && strstr(e.msg, want), "refused: %s", want))
		printf("# %d %s\n", rc, e.msg);
	nearest_request_release(&r);
}

static void test_members(void)
{
	ok(parse(
	       "{\"table\": \"v\", \"queries\": [\"king\", 7, [0.5, -1, 2e-3]], \"k\": 3, \"metric\": "
	       "\"dot\", \"among\": \"item\", \"exclude\": [9, \"queen\"]}") == ERR_OK,
	    "all members: %s", e.msg);
	ok(strcmp(r.table, "v") == 0 && strcmp(r.metric, "dot") == 0 &&
	        strcmp(r.among, "item") == 0 && r.k == 3,
	    "table, metric, kind and k");
	ok(r.n == 3 && strcmp(r.query[0], "king") == 0 && strcmp(r.query[1], "#7") == 0,
	    "a name and an id");
	ok(strcmp(r.query[2], "[0.5,-1,0.002]") == 0, "a vector: %s", r.query[2]);
	ok(r.nexclude == 2 && strcmp(r.exclude[0], "#9") == 0 && strcmp(r.exclude[1], "queen") == 0,
	    "rows that are not wanted");
	nearest_request_release(&r);
	ok(parse("{\"table\": \"v\", \"queries\": [\"a\"]}") == ERR_OK && r.k == 10 && !r.metric &&
	        !r.among && !r.nexclude,
	    "what may be left out");
	nearest_request_release(&r);
}

static void test_refusals(void)
{
	refuses("", ERR_FORMAT, "");
	refuses("{\"table\": \"v\"", ERR_FORMAT, "");
	refuses("[1]", ERR_USAGE, "must be an object");
	refuses("{\"queries\": [1]}", ERR_USAGE, "name the table");
	refuses("{\"table\": 3, \"queries\": [1]}", ERR_USAGE, "table: must be a string");
	refuses("{\"table\": \"v\", \"queries\": []}", ERR_USAGE, "give rows or vectors");
	refuses("{\"table\": \"v\", \"queries\": \"king\"}", ERR_USAGE, "must be a list of rows");
	refuses("{\"table\": \"v\", \"querys\": [1]}", ERR_USAGE, "did you mean \"queries\"");
	refuses("{\"table\": \"v\", \"queries\": [1, -1]}", ERR_USAGE, "queries[1]");
	refuses("{\"table\": \"v\", \"queries\": [1.5]}", ERR_USAGE, "queries[0]");
	refuses("{\"table\": \"v\", \"queries\": [\"\"]}", ERR_USAGE, "queries[0]");
	refuses("{\"table\": \"v\", \"queries\": [[]]}", ERR_USAGE, "queries[0]");
	refuses("{\"table\": \"v\", \"queries\": [[1, \"x\"]]}", ERR_USAGE, "or a list of numbers");
	refuses("{\"table\": \"v\", \"queries\": [1], \"exclude\": [[1]]}", ERR_USAGE,
	    "exclude[0]: must be the name of a row, its id");
	refuses("{\"table\": \"v\", \"queries\": [1], \"k\": 0}", ERR_USAGE, "k: must be");
	refuses("{\"table\": \"v\", \"queries\": [1], \"metric\": \"l2\"}", ERR_USAGE,
	    "dot or cosine");
	refuses("{\"table\": \"v\", \"queries\": [1, 2, 3], \"k\": 34}", ERR_LIMIT, "serve_rows");
	ok(parse("{\"table\": \"v\", \"queries\": [1, 2, 3], \"k\": 33}") == ERR_OK,
	    "as many as allowed");
	nearest_request_release(&r);
}

int main(void)
{
	test_members();
	test_refusals();
	return tap_done();
}
