/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "tap.h"
#include "msg/message.h"

/* The control messages of the previous release, as recorded in tests/previous: each is decoded, and
 * no member of it is lost. A member that is renamed, or a bound that is drawn closer, would keep
 * its processes out of a cluster. */

#define MESSAGES "tests/previous/0.1.0/messages"

/* Returns the first member of a message that the decoder has not taken, or NULL. Members that are 0
 * may be absent. done, leave and fail have figures beside their members, which go on in their
 * document, and the coordinator ignores the "epoch" of a relay that joins. */
static const char *find_lost_member(const json_t *recorded, const struct message *m)
{
	json_t *again, *value;
	const char *key, *lost = NULL;

	if (m->kind == MESSAGE_done || m->kind == MESSAGE_leave || m->kind == MESSAGE_fail)
		return NULL;
	again = message_encode(m->kind, &m->watch);
	json_object_foreach((json_t *)recorded, key, value)
		if (!lost && !(m->kind == MESSAGE_relay_join && strcmp(key, "epoch") == 0) &&
		    !(json_is_integer(value) && json_integer_value(value) == 0) &&
		    !json_equal(value, json_object_get(again, key)))
			lost = key;
	json_decref(again);
	return lost;
}

static void test_line(const char *line)
{
	char *text;
	unsigned role = (unsigned)strtoul(line, &text, 10);
	struct err e = { 0 };
	struct message m;
	json_t *json = json_parse(text, strlen(text), 1 << 20, &e);
	const char *op = json_str(json, "op", "?"), *lost;

	if (ok(json && message_decode(json, role, &m, &e) == ERR_OK,
	        "\"%s\" of role %u is decoded: %s", op, role, e.msg)) {
		lost = find_lost_member(json, &m);
		ok(!lost, "\"%s\" keeps all of its members: %s", op, lost ? lost : "");
	}
	json_decref(json);
}

int main(void)
{
	FILE *f = fopen(MESSAGES, "re");
	char *line = NULL;
	size_t size = 0, n = 0;

	while (f && getline(&line, &size, f) > 0) {
		test_line(line);
		n++;
	}
	ok(n > 30, "the messages are there: %zu", n);
	free(line);
	if (f)
		fclose(f);
	return tap_done();
}
