/* SPDX-License-Identifier: ISC */
/* Requests of the Open Inference Protocol. */
#include "tap.h"

#include <string.h>

#include "serving/v2_request.h"

static struct v2_request r;
static struct err e;
static struct v2_head last;

static enum err_code parse(const char *body, size_t n, int64_t head)
{
	e = (struct err){ 0 };
	return v2_request_parse(body, n, head, 100, &last, &r, &e);
}

static enum err_code parse_text(const char *body)
{
	return parse(body, strlen(body), -1);
}

/* Is the text refused with a sentence that has this in it? */
static void refuses(const char *body, enum err_code code, const char *want)
{
	enum err_code rc = parse_text(body);

	if (!ok(rc == code && strstr(e.msg, want), "refused: %s", want))
		printf("# %d %s\n", rc, e.msg);
	v2_request_release(&r);
}

static void test_json(void)
{
	struct v2_value v;

	ok(parse_text(
	       "{\"id\": \"a7\", \"inputs\": [{\"name\": \"x\", \"shape\": [2, 2], \"datatype\": \"FP32\", "
	       "\"data\": [[1, 2.5], [null, -3]]}, {\"name\": \"city\", \"shape\": [2], \"datatype\": "
	       "\"BYTES\", \"data\": [\"Bonn\", \"\"]}], \"outputs\": [{\"name\": \"score\"}]}") ==
	        ERR_OK,
	    "JSON with two inputs");
	ok(r.rows == 2 && r.nin == 2 && r.in[0].cols == 2 && !r.in[0].flat && r.in[1].flat,
	    "shapes");
	ok(strcmp(json_string_value(r.id), "a7") == 0 && r.nout == 1 && !r.out[0].binary,
	    "id and outputs");
	v = v2_next(&r.in[0]);
	ok(v.kind == V2_INTEGER && v.integer == 1 && v.number == 1, "an integer");
	v = v2_next(&r.in[0]);
	ok(v.kind == V2_NUMBER && v.number == 2.5, "a number");
	ok(v2_next(&r.in[0]).kind == V2_MISSING, "null is missing");
	v = v2_next(&r.in[1]);
	ok(v.kind == V2_TEXT && v.len == 4 && memcmp(v.text, "Bonn", 4) == 0, "a text");
	v2_rewind(&r.in[1]);
	ok(v2_next(&r.in[1]).len == 4 && v2_next(&r.in[1]).len == 0, "again, and an empty text");
	v2_request_release(&r);
}

static void test_binary(void)
{
	static const char head[] =
	    "{\"inputs\": [{\"name\": \"n\", \"shape\": [2], \"datatype\": \"INT64\", \"parameters\": "
	    "{\"binary_data_size\": 16}}, {\"name\": \"t\", \"shape\": [2], \"datatype\": \"BYTES\", "
	    "\"parameters\": {\"binary_data_size\": 10}}, {\"name\": \"f\", \"shape\": [2], \"datatype\": "
	    "\"FP32\", \"data\": [1, 2]}], \"parameters\": {\"binary_data_output\": true}}";
	static const uint8_t raw[26] = { 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0,
		0, 0, 0, 0, 2, 0, 0, 0, 'a', 0, 0, 0, 0, 0 };
	char body[sizeof head - 1 + sizeof raw];
	struct v2_value v;

	memcpy(body, head, sizeof head - 1);
	memcpy(body + sizeof head - 1, raw, sizeof raw);
	ok(parse(body, sizeof body, sizeof head - 1) == ERR_OK, "binary and JSON inputs: %s",
	    e.msg);
	ok(r.binary_outputs, "outputs are to be binary");
	ok(v2_next(&r.in[0]).integer == -2 && v2_next(&r.in[0]).integer == 5, "INT64");
	v = v2_next(&r.in[1]);
	ok(v.kind == V2_TEXT && v.len == 2 && v.text[0] == 'a' && v.text[1] == 0,
	    "a text with a NUL byte");
	ok(v2_next(&r.in[1]).len == 0, "an empty text");
	v2_request_release(&r);
	ok(last.json && last.len == sizeof head - 1, "the JSON is kept");
	body[sizeof head - 1] = 3;
	memset(body + sizeof head, 0, 7);
	ok(parse(body, sizeof body, sizeof head - 1) == ERR_OK && r.json == last.json &&
	        v2_next(&r.in[0]).integer == 3 && v2_next(&r.in[2]).number == 1,
	    "another request with it has its own raw values");
	v2_request_release(&r);
	body[sizeof head - 2] = ' ';
	ok(parse(body, sizeof body, sizeof head - 1) == ERR_FORMAT && last.json,
	    "a malformed JSON of this length is not taken for it");
	v2_request_release(&r);
	body[sizeof head - 2] = '}';
	ok(parse(body, sizeof body - 1, sizeof head - 1) == ERR_FORMAT, "a byte is missing");
	v2_request_release(&r);
	ok(parse(body, sizeof body, sizeof body + 1) == ERR_FORMAT,
	    "the header's length is too large");
	v2_request_release(&r);
}

int main(void)
{
	test_json();
	test_binary();
	refuses("[]", ERR_FORMAT, "must be an object");
	refuses("{\"inputs\": 1}", ERR_FORMAT, "\"inputs\" must be an array");
	refuses("{\"inputs\": []}", ERR_FORMAT, "\"inputs\" must be an array");
	refuses("{\"inputs\": [{\"name\": \"x\"}]}", ERR_FORMAT, "\"datatype\"");
	refuses("{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\"}]}", ERR_FORMAT,
	    "\"shape\"");
	refuses("{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [-1]}]}",
	    ERR_FORMAT, "at least 0");
	refuses(
	    "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [101], \"data\": []}]}",
	    ERR_LIMIT, "may have 100 rows");
	refuses(
	    "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [2], \"data\": [1]}]}",
	    ERR_FORMAT, "another number of values");
	refuses(
	    "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [1], \"data\": [\"a\"]}]}",
	    ERR_FORMAT, "does not fit type FP32");
	refuses(
	    "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"INT8\", \"shape\": [1, 2], \"data\": [1, 1.5]}]}",
	    ERR_FORMAT, "row 1, column 2");
	refuses(
	    "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [1], \"data\": [[[1]]]}]}",
	    ERR_FORMAT, "array of values");
	refuses(
	    "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"INT8\", \"shape\": [2, 9223372036854775807], "
	    "\"parameters\": {\"binary_data_size\": 0}}]}",
	    ERR_FORMAT, "too large");
	refuses(
	    "{\"id\": 7, \"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [1], \"data\": [1]}]}",
	    ERR_FORMAT, "\"id\"");
	refuses(
	    "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [1], \"data\": [1]}, {\"name\": "
	    "\"y\", \"datatype\": \"FP32\", \"shape\": [2], \"data\": [1, 2]}]}",
	    ERR_FORMAT, "another number of rows");
	refuses("{\"inputs\": [", ERR_FORMAT, "the body:1:");
	v2_head_release(&last);
	return tap_done();
}
