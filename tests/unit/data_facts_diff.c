/* SPDX-License-Identifier: ISC */
#include "worker/data_facts_diff.h"

#include "core/buf.h"
#include "table_fixture.h"
#include "worker/data_facts.h"

/* The differences of two descriptions, as they are reported. */
static void note_difference(void *ctx, const char *what, const char *text)
{
	buf_printf(ctx, "%s: %s\n", what, text);
}

static json_t *describe(const char *text, const char *options, const struct data_want *want)
{
	struct err e;
	struct dataset *d = load(text, options, want, NULL, &e);
	json_t *facts = d ? data_facts(d) : NULL;

	if (!d)
		printf("# %s\n", e.msg);
	dataset_free(d);
	return facts;
}

/* Compares the descriptions of two texts with the lines that are expected. */
static void check_text(const char *a, const char *b, const char *options,
    const struct data_want *want, const char *lines, const char *title)
{
	struct buf out = BUF_INIT;
	struct err e = { 0 };
	json_t *x = describe(a, options, want), *y = b ? describe(b, options, want) : NULL;
	enum err_code rc = data_facts_diff(x, y, note_difference, &out, &e);

	buf_append(&out, "", 1);
	printf("# %s", out.len > 1 ? (const char *)out.data : "nothing\n");
	ok(rc == ERR_OK && strcmp((const char *)out.data, lines) == 0, "%s", title);
	buf_release(&out);
	json_decref(x);
	json_decref(y);
}

int main(void)
{
	static const struct data_want classes = { .classes = true },
	                              scaled = { .scale = "standard" };
	static const char table[] = "size,city,y\n1,rome,0\n3,oslo,1\n2,rome,0\n";

	check_text(table, table, "", &classes, "", "the same data");
	check_text(table, NULL, "", &classes, "other: only A has a description of its data\n",
	    "one without a description");
	check_text(table, "size,city,y\n1,rome,0\n3,oslo,1\n2,rome,2\n", "", &classes,
	    "classes: 1 only in B (\"2\")\n", "another class");
	check_text(table, "size,town,y\n1,rome,0\n3,oslo,1\n2,rome,0\n", "", &classes,
	    "columns: 1 only in A (\"city\"); 1 only in B (\"town\")\n", "another column");
	check_text(table, "city,size,y\nrome,1,0\noslo,3,1\nrome,2,0\n", "", &classes,
	    "columns: the same in another order\n", "another order of columns");
	check_text(table, "size,city,y\n1,rome,0\n3,bonn,1\n2,pisa,0\n", "", &classes,
	    "features: 3 dense in A, 4 dense in B\n"
	    "categories: \"city\": 1 only in A (\"oslo\"); 2 only in B (\"bonn\", \"pisa\")\n",
	    "other categories");
	check_text("size,city,y\n1,rome,0\n3,oslo,1\n", "size,city,y\nlow,rome,0\nhigh,oslo,1\n",
	    "", &classes,
	    "features: 3 dense in A, 4 dense in B\n"
	    "columns: \"size\" is number in A and category in B\n",
	    "another kind of column");
	check_text(table, "size,city,y\n5,rome,0\n3,oslo,1\n1,rome,0\n", "", &scaled,
	    "scaling: \"size\": (x - 2) * 1.22474492 in A, (x - 3) * 0.612372458 in B\n",
	    "another scaling");
	check_text("0 1:1 2:1\n1 3:1\n", "0 0:1 2:1\n1 1:1\n", "", &classes,
	    "features: 3 sparse with indices from 1 in A, 3 sparse with indices from 0 in B\n",
	    "another index base");
	check_text("body,y\nred car,0\nblue car,1\n", "body,y\nred car,0\nblue bus,1\nred bus,0\n",
	    "?text=body&text_weight=tfidf&bits=4", &classes,
	    "categories: \"body\": 1 only in B (\"bus\")\n"
	    "frequencies: of 2 rows in A, of 3 in B; 4 of 16 places of words and pairs, the first of "
	    "them place 1 with 0 in A, 1 in B\n",
	    "other frequencies of words");
	return tap_done();
}
