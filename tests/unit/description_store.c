/* SPDX-License-Identifier: ISC */
/* Tests a large description of data in a file beside the coordinator's state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coord/coord.h"
#include "coordinator/description_store.h"
#include "core/err.h"
#include "core/json.h"
#include "core/mem.h"
#include "tap.h"

/* The facts of a state that names this file, after they were read; NULL: they were refused. */
static json_t *read_facts(const char *dir, const char *name, struct err *e)
{
	json_t *state = json_pack("{s:{s:s}}", "facts", "file", name), *facts = NULL;

	*e = (struct err){ 0 };
	if (!description_store_read(dir, state, e))
		facts = json_incref(json_object_get(state, "facts"));
	json_decref(state);
	return facts;
}

int main(void)
{
	char dir[] = "/tmp/pskit-description-XXXXXX";
	json_t *facts = json_pack("{s:[s, s], s:f}", "names", "a", "caf\u00e9", "mean", 0.1), *again,
	       *small = json_pack("{s:{s:i}}", "facts", "cols", 3);
	char *text = json_text(facts), *name = coord_facts_file(text), *other, *path;
	struct err e = { 0 };

	if (!mkdtemp(dir))
		return 1;
	ok(!description_store_write(dir, name, text, &e), "a description is written: %s", e.msg);
	again = read_facts(dir, name, &e);
	ok(again && json_equal(again, facts), "and read where a state names it: %s", e.msg);
	json_decref(again);
	ok(!description_store_read(dir, small, &e) &&
	        json_integer_value(json_object_get(json_object_get(small, "facts"), "cols")) == 3,
	    "a small one is in the state itself");
	ok(!read_facts(dir, "../secret.json", &e) && e.code == ERR_FORMAT, "no other file is read: %s",
	    e.msg);
	other = coord_facts_file("{}");
	ok(!description_store_write(dir, other, text, &e) && !read_facts(dir, other, &e) &&
	        strstr(e.msg, "damaged"),
	    "contents that are not those of the name are refused: %s", e.msg);
	description_store_clean(dir, other);
	ok(!read_facts(dir, name, &e), "files that no state names are removed: %s", e.msg);
	path = mem_printf("%s/%s", dir, other);
	unlink(path);
	rmdir(dir);
	free(path);
	free(other);
	free(name);
	free(text);
	json_decref(small);
	json_decref(facts);
	return tap_done();
}
