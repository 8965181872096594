/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "conf/conf_key.h"
#include "core/file.h"
#include "core/mem.h"
#include "lab/report_read.h"
#include "lab/sweep.h"
#include "supervisor/rsh.h"

/* Returns an assignment with its value as the key reads it: paths become absolute. One that the key
 * does not accept stays as it is. */
static char *resolve_assignment(const char *text)
{
	char *name = mem_printf("%.*s", (int)strcspn(text, "="), text), *resolved = NULL;
	const struct conf_key *k = conf_key_find(name, NULL);
	struct conf c;

	conf_init(&c);
	if (k && conf_set(&c, text, NULL) == ERR_OK) {
		json_t *v = conf_value_json(k, &c);
		char *value = report_value_text(v);

		resolved = mem_printf("%s=%s", name, value);
		free(value);
		json_decref(v);
	}
	conf_release(&c);
	free(name);
	return resolved ? resolved : mem_strdup(text);
}

static void add_assignment(struct best_point *b, char *text)
{
	b->set = mem_regrow(b->set, b->nset + 1, sizeof *b->set);
	b->set[b->nset++] = text;
}

/* With rungs, the last one decides how long the point trains. */
void sweep_best_make(const struct sweep *s, const struct point *p, struct best_point *out)
{
	int64_t steps = s->ladder.steps ? s->ladder.steps[s->ladder.rungs - 1] : 0;

	*out = (struct best_point){ .cluster = path_absolute(s->file) };
	for (size_t i = 0; i < s->sets->n; i++)
		add_assignment(out, resolve_assignment(s->sets->item[i]));
	for (size_t i = 0; i < s->nkeys; i++)
		add_assignment(out, resolve_assignment(p->assignment[i]));
	if (steps) {
		add_assignment(out, mem_printf("steps=%lld", (long long)steps));
		add_assignment(out, mem_strdup("epochs=0"));
	}
}

char *sweep_best_command(const struct best_point *b, const char *file)
{
	struct buf text = BUF_INIT;

	buf_puts(&text, "ps-ctl run ");
	rsh_quote(file, &text);
	for (size_t i = 0; i < b->nset; i++) {
		buf_puts(&text, " --set ");
		rsh_quote(b->set[i], &text);
	}
	return (char *)text.data;
}
