/* SPDX-License-Identifier: ISC */
/* Tests a large description of data in a file beside the coordinator's state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/description_store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "tap.h"

/* The description of a state with these facts, after it was read. */
static enum err_code read_of(const char *dir, json_t *facts, struct large_description **out,
    struct err *e)
{
	json_t *state = json_pack("{s:o}", "facts", facts);
	enum err_code rc;

	*e = (struct err){ 0 };
	rc = description_store_read(dir, state, out, e);
	json_decref(state);
	return rc;
}

static void spoil(const char *dir, const struct large_description *d)
{
	char *path = mem_printf("%s/description-%.16s.json", dir, d->blake2b);
	struct err e;

	ok(!file_replace(path, "{}", 2, 0600, &e), "the file is damaged");
	free(path);
}

int main(void)
{
	char dir[] = "/tmp/pskit-description-XXXXXX";
	struct large_description *d = large_description_of_text(mem_strdup("{\"a\":\"caf\u00e9\"}"),
	                             strlen("{\"a\":\"caf\u00e9\"}")),
	                         *other = large_description_of_text(mem_strdup("{}"), 2), *read;
	struct err e = { 0 };

	if (!mkdtemp(dir))
		return 1;
	ok(!description_store_write(dir, d, &e), "a description is written: %s", e.msg);
	ok(!read_of(dir, large_description_refer(d), &read, &e) && read &&
	        strcmp(read->text, d->text) == 0,
	    "and read where a state refers to it: %s", e.msg);
	large_description_release(read);
	ok(!read_of(dir, json_pack("{s:i}", "cols", 3), &read, &e) && !read,
	    "a small one is in the state itself");
	ok(!read_of(dir, json_null(), &read, &e) && !read, "and there may be none");
	ok(read_of(dir, large_description_refer(other), &read, &e) && !read,
	    "one that is missing is named: %s", e.msg);
	ok(!description_store_write(dir, other, &e), "another one is written: %s", e.msg);
	description_store_clean(dir, other);
	ok(read_of(dir, large_description_refer(d), &read, &e) && !read &&
	        !read_of(dir, large_description_refer(other), &read, &e) && read,
	    "files that no state refers to are removed: %s", e.msg);
	large_description_release(read);
	spoil(dir, other);
	ok(!read_of(dir, large_description_refer(other), &read, &e), "the same bytes are the same");
	large_description_release(read);
	spoil(dir, d);
	ok(read_of(dir, large_description_refer(d), &read, &e) == ERR_FORMAT && !read &&
	        strstr(e.msg, "damaged"),
	    "contents that are not those of the name are refused: %s", e.msg);
	file_remove_tree(dir, &e);
	large_description_release(other);
	large_description_release(d);
	return tap_done();
}
