/* SPDX-License-Identifier: ISC */
/* Classes and categories that differ only by blanks. */
#include "data/table/data_alike.h"

#include "table_fixture.h"

static void check_alike_names(const char *text, const struct data_want *want, const char *column,
    const char *a, const char *b, const char *title)
{
	struct data_alike x = { 0 };
	struct err e;
	struct dataset *d = load(text, "", want, NULL, &e);
	bool found = d && data_alike_find(d, &x);

	ok(d &&
	        (a ? found && strcmp(x.a, a) == 0 && strcmp(x.b, b) == 0 &&
	                    strcmp(x.column ? x.column : "", column) == 0
	           : !found),
	    "%s: %s", title, found ? x.b : e.msg);
	dataset_free(d);
}

int main(void)
{
	static const struct data_want classes = { .classes = true };

	check_alike_names("a,y\n1,yes\n2,no\n3,yes \n4, no\n", &classes, NULL, NULL, NULL,
	    "blanks that the reader removes");
	check_alike_names("a,y\n1,yes\n2,no\n3,yes\xc2\xa0\n", &classes, "", "yes", "yes\xc2\xa0",
	    "a no-break space after a class");
	check_alike_names("a,y\n1,yes\n2,no\n3,\xe2\x80\x8byes\n", &classes, "", "yes",
	    "\xe2\x80\x8byes", "a blank without width before a class");
	check_alike_names("town,y\nRome,1\nOslo,2\nRome\xc2\xa0,3\n", &real, "town", "Rome",
	    "Rome\xc2\xa0", "categories of a column");
	check_alike_names("a,b,y\nx,x\xc2\xa0,1\ny,y\xc2\xa0,2\n", &real, NULL, NULL, NULL,
	    "categories of different columns");
	return tap_done();
}
