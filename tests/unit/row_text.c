/* SPDX-License-Identifier: ISC */
/* The names of parameters in exports. */
#include "table_fixture.h"

#include "core/buf.h"
#include "tool/row_text.h"
#include "worker/data_facts.h"

static const struct data_want classes = { .classes = true };

/* Is this the line of a parameter of value 1.5, in a job of this model on these data? */
static void line_is(const char *model, const struct dataset *d, const char *table, uint64_t row,
    uint64_t column, const char *want)
{
	json_t *config = json_pack("{s:{s:s}}", "job", "model", model);
	json_t *facts = d ? data_facts(d) : NULL;
	struct row_text *x = row_text_new(config, facts);
	struct buf out = BUF_INIT;

	/* Whatever came before. */
	row_text_put(x, "b", 0, 0, 0, &out);
	buf_clear(&out);
	row_text_put(x, table, row, column, 1.5F, &out);
	ok(strcmp((char *)out.data, want) == 0, "%s: %.*s", model, (int)out.len - 1,
	    (char *)out.data);
	buf_release(&out);
	row_text_free(x);
	json_decref(facts);
	json_decref(config);
}

static void tables(void)
{
	static const char text[] = "age,town,kind\n1,Oslo,a\n2,\"a\tb\\\",b\n3,Oslo,c\n4,Oslo,c\n";
	struct err e;
	struct dataset *d = load(text, "", &classes, NULL, &e), *hashed;

	line_is("softmax", d, "w", 0, 1, "w[0,1]\t1.5\tage\tb\n");
	line_is("softmax", d, "w", 1, 2, "w[1,2]\t1.5\ttown=Oslo\tc\n");
	line_is("softmax", d, "w", 2, 0, "w[2,0]\t1.5\ttown=a\\tb\\\\\ta\n");
	line_is("softmax", d, "b", 0, 2, "b[0,2]\t1.5\tintercept\tc\n");
	line_is("softmax", d, "w", 3, 0, "w[3,0]\t1.5\n");
	line_is("softmax", d, "w", UINT64_MAX, UINT64_MAX,
	    "w[18446744073709551615,18446744073709551615]\t1.5\n");
	line_is("mlp", d, "w0", 1, 2, "w0[1,2]\t1.5\ttown=Oslo\n");
	line_is("mlp", d, "w1", 1, 2, "w1[1,2]\t1.5\n");
	line_is("custom", d, "w", 0, 0, "w[0,0]\t1.5\n");
	line_is("none", d, "w", 0, 0, "w[0,0]\t1.5\n");
	line_is("softmax", NULL, "w", 0, 0, "w[0,0]\t1.5\n");
	hashed = load(text, "bits=20", &classes, NULL, &e);
	for (size_t i = 0; i < hashed->nids; i++)
		if (hashed->id[i] > 0) {
			char *name = data_feature_name(hashed, hashed->id[i]);

			ok(strncmp(name, "town=", 5) == 0, "a hashed category: %s", name);
			free(name);
		}
	dataset_free(hashed);
	dataset_free(d);
}

static void numbers(void)
{
	struct err e;
	struct dataset *d = load("x,z,y\n1,2,3\n4,5,6\n", "", &real, NULL, &e), *like = NULL;
	json_t *facts = data_facts(d);

	line_is("linear", d, "w", 1, 0, "w[1,0]\t1.5\tz\n");
	line_is("linear", d, "b", 0, 0, "b[0,0]\t1.5\tintercept\n");
	ok(data_of_facts(facts, &like, &e) == ERR_OK, "the description has names");
	dataset_free(like);
	json_object_set_new(facts, "cols", json_integer(3));
	ok(data_of_facts(facts, &like, &e) == ERR_FORMAT, "as many names as features");
	json_decref(facts);
	dataset_free(d);
	d = load("a b a b a b a b a b a b", "format=text&window=2",
	    &(struct data_want){ .words = true }, NULL, &e);
	line_is("word2vec", d, "v", 2, 1, "v[2,1]\t1.5\tb\n");
	line_is("word2vec", d, "v", 1, 1, "v[1,1]\t1.5\ta (predicted)\n");
	dataset_free(d);
}

static void ratings(void)
{
	struct err e;
	struct dataset *d = load("ann,Jaws,5\nann,7,4\n", "format=ratings", &real, NULL, &e), *like;
	json_t *facts = data_facts(d);
	char want[100];

	snprintf(want, sizeof want, "v[%llu,0]\t1.5\titem=Jaws\n", (unsigned long long)d->id[2]);
	ok(d->id[0] == 15 && d->nids == 3, "a number, a user and an item");
	if (d->id[2] % 2 == 0)
		snprintf(want, sizeof want, "v[%llu,0]\t1.5\tuser=ann\n",
		    (unsigned long long)d->id[2]);
	line_is("mf", d, "v", d->id[2], 0, want);
	line_is("mf", d, "v", 15, 0, "v[15,0]\t1.5\n");
	json_object_set_new(facts, "hashed", json_pack("{s:{s:s}}", "user", "ann", "x"));
	ok(data_of_facts(facts, &like, &e) == ERR_FORMAT, "damaged names: %s", e.msg);
	json_decref(facts);
	dataset_free(d);
}

int main(void)
{
	tables();
	numbers();
	ratings();
	return tap_done();
}
