/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/control.h"
#include "core/file.h"
#include "core/json.h"
#include "core/plain.h"
#include "core/suggest.h"
#include "ctl.h"
#include "msg/words.h"
#include "rundir/rundir.h"

#define FILE_MAX (1u << 30)
/* Seconds that the coordinator may hold a request until there is an event. */
#define WAIT     "20"
#define PATIENCE (30 * NSEC_PER_SEC)
#define PACE_MS  100

struct options {
	char **kinds; /* of the events to show; none: all */
	int nkinds;
	const char *dir;
	bool follow, json;
	int64_t lines;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "follow", 'f', OPT_FLAG, offsetof(struct options, follow), NULL,
	    "show new events until the cluster ends", NULL, 0, 0 },
	{ "lines", 'n', OPT_INT, offsetof(struct options, lines), "N", "show only the last N", NULL,
	    0, 1e9 },
	CTL_OPT_JSON(struct options, json),
};

struct shower {
	const struct options *o;
	const char *dir;
	uint64_t next; /* revision of the first event not seen yet */
};

static bool is_wanted_event(const struct shower *s, const json_t *e)
{
	enum event_kind kind = event_kind_by_name(json_str(e, "event", ""));
	bool wanted = s->o->nkinds == 0;

	for (int i = 0; i < s->o->nkinds; i++)
		wanted |= event_kind_by_name(s->o->kinds[i]) == kind;
	return wanted;
}

static void print_event(const struct shower *s, const json_t *e)
{
	if (s->o->json)
		json_print_event("event", e);
	else
		plain_print(stdout, "%s %-13s %s\n", json_str(e, "ts", ""),
		    json_str(e, "event", ""), json_str(e, "text", ""));
}

/* Prints the events of the list that are new and wanted; if n is not negative, only the last n of
 * them. */
static void show_new_events(struct shower *s, const json_t *list, int64_t n)
{
	json_t *wanted = json_array();
	const json_t *e;
	size_t i;

	json_array_foreach(list, i, e) {
		uint64_t rev = (uint64_t)json_int(e, "rev", 0);

		if (rev < s->next)
			continue;
		s->next = rev + 1;
		if (is_wanted_event(s, e))
			json_array_append(wanted, (json_t *)e);
	}
	json_array_foreach(wanted, i, e)
		if (n < 0 || (int64_t)(json_array_size(wanted) - i) <= n)
			print_event(s, e);
	json_decref(wanted);
	fflush(stdout);
}

/* Reads events.jsonl as a list. Returns NULL and sets e when it cannot be read. */
static json_t *read_event_file(const char *dir, struct err *e)
{
	char *path = rundir_path(dir, "events.jsonl"), *line;
	struct buf text = BUF_INIT;
	json_t *list = NULL;

	if (!file_read(path, FILE_MAX, &text, e)) {
		list = json_array();
		buf_append(&text, "", 1);
		for (char *at = (char *)text.data; (line = strchr(at, '\n')); at = line + 1)
			json_array_append_new(list, json_loadb(at, (size_t)(line - at), 0, NULL));
	}
	buf_release(&text);
	free(path);
	return list;
}

/* Prints the events in the file, which has the whole history. */
static enum err_code show_event_file(struct shower *s, int64_t n, struct err *e)
{
	json_t *list = read_event_file(s->dir, e);

	if (!list)
		return e->code;
	show_new_events(s, list, n);
	json_decref(list);
	return ERR_OK;
}

static enum err_code poll_events(struct shower *s, struct http_client *client, struct err *e)
{
	char path[80];
	json_t *answer = NULL;
	enum err_code rc;

	snprintf(path, sizeof path, "/v1/events?since=%llu&wait=" WAIT,
	    (unsigned long long)s->next);
	rc = http_call(client, "GET", path, NULL, PATIENCE, NULL, &answer, e);
	if (!rc)
		show_new_events(s, json_object_get(answer, "events"), -1);
	json_decref(answer);
	return rc;
}

/* Prints events until the cluster ends; the last ones come from the file. A request that fails is
 * repeated: a coordinator that has died may be started again. */
static enum err_code follow_events(struct shower *s, struct err *e)
{
	struct http_client *client;
	enum err_code rc = control_connect(s->dir, &client, e);

	while (!rc && control_is_alive(s->dir) && !ferror(stdout))
		if (poll_events(s, client, e))
			clock_sleep(PACE_MS);
	http_client_free(client);
	return rc ? rc : show_event_file(s, -1, e);
}

static enum err_code show_events(void *options, const char *dir, struct err *e)
{
	const struct options *o = options;
	struct shower s = { .o = o, .dir = dir };
	enum err_code rc = show_event_file(&s, o->lines, e);

	return rc == ERR_OK && o->follow && control_is_alive(dir) ? follow_events(&s, e) : rc;
}

/* Returns 0, or the exit code after reporting a word that is not a kind of event. */
static int check_kinds(const struct ctl_cmd *self, char **word, int n)
{
	const char *kinds[EVENT_KINDS];

	for (enum event_kind k = 0; k < EVENT_KINDS; k++)
		kinds[k] = event_kind_name(k);
	for (int i = 0; i < n; i++) {
		const char *near = suggest(word[i], kinds, EVENT_KINDS);

		if (event_kind_by_name(word[i]) == EVENT_KINDS)
			return ctl_report_misuse(self, "unknown kind of event \"%.80s\"%s%s%s",
			    word[i], near ? "; did you mean \"" : "", near ? near : "",
			    near ? "\"?" : "; ps-http(7) lists them");
	}
	return 0;
}

static int run_events(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .lines = -1 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	code = check_kinds(self, argv + 1, nargs);
	if (code)
		return code;
	o.kinds = argv + 1;
	o.nkinds = nargs;
	return ctl_act_on_run(o.dir, false, show_events, &o);
}

const struct ctl_cmd ctl_cmd_events = {
	"events",
	{
	    .prog = "ps-ctl events",
	    .args = "[KIND ...]",
	    .about = "show the events of a cluster: joins, losses, changes, evaluations",
	    .more =
	        "It also shows the events of a finished run: events.jsonl of the run directory has all of them,\n"
	        "across restarts of the coordinator. KIND is the second column, as worker_lost.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .max_args = -1,
	    .examples = "  ps-ctl events -n 20\n  ps-ctl events -f worker_lost server_lost\n"
	                "  ps-ctl events --json | jq -r 'select(.event == \"eval\").text'\n",
	},
	run_events,
};
