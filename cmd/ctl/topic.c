/* SPDX-License-Identifier: ISC */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/json.h"
#include "core/mem.h"
#include "ctl.h"
#include "data/source/data_uri.h"
#include "format/uri.h"
#include "kafka/topic.h"

struct options {
	bool json;
};

static const struct opt opts[] = {
	CTL_OPT_JSON(struct options, json),
};

static atomic_bool stopped;

static void request_stop(int sig)
{
	(void)sig;
	atomic_store(&stopped, true);
}

static void print_line(void *ctx, bool warning, const char *text)
{
	(void)ctx;
	fprintf(stderr, "ps-ctl: %s: %s\n", warning ? "warning" : "note", text);
}

static bool is_topic_stopped(void *ctx)
{
	(void)ctx;
	return atomic_load(&stopped);
}

/* Has the process that reads the events ended? */
static bool is_left(void *ctx)
{
	struct pollfd p = { STDIN_FILENO, POLLIN, 0 };

	return is_topic_stopped(ctx) || (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)));
}

/* A topic by its name, "kafka://BROKERS/TOPIC?options". */
struct named {
	struct uri_topic uri;
	struct data_options options;
	struct topic *topic;
};

static enum err_code open_named(const char *name, bool (*stop)(void *ctx), struct named *out,
    struct err *e)
{
	char *file = NULL;
	enum err_code rc = data_uri_parse(name, &file, &out->options, e);

	if (!rc)
		rc = uri_topic_parse(file, &out->uri, e);
	free(file);
	if (!rc)
		rc = topic_open(&(struct topic_config){ .brokers = out->uri.brokers,
		                    .name = out->uri.topic,
		                    .group = out->options.group ? out->options.group : "pskit",
		                    .properties = out->options.properties,
		                    .from = out->options.from ? out->options.from : "begin",
		                    .skip_deleted = out->options.deleted &&
		                        strcmp(out->options.deleted, "skip") == 0,
		                    .tell = print_line,
		                    .stop = stop },
		    &out->topic, e);
	return rc;
}

static void close_named(struct named *n)
{
	topic_close(n->topic);
	uri_topic_release(&n->uri);
	data_uri_release(&n->options);
}

static enum err_code list_partitions(const char *name, const struct options *o, struct err *e)
{
	struct named n = { .options = DATA_OPTIONS_INIT };
	enum err_code rc = open_named(name, is_topic_stopped, &n, e);

	if (!rc && !o->json)
		printf("PARTITION       OLDEST          END        GROUP\n");
	for (uint32_t i = 0; !rc && i < topic_partitions(n.topic); i++) {
		int64_t oldest, end, group;
		json_t *line;

		rc = topic_offsets(n.topic, i, &oldest, &end, &group, e);
		if (rc)
			break;
		if (!o->json) {
			printf("%9" PRIu32 " %12" PRId64 " %12" PRId64, i, oldest, end);
			if (group < 0)
				printf("            -\n");
			else
				printf(" %12" PRId64 "\n", group);
			continue;
		}
		line = json_pack("{s:I, s:I, s:I, s:o}", "partition", (json_int_t)i, "oldest",
		    (json_int_t)oldest, "end", (json_int_t)end, "group",
		    group < 0 ? json_null() : json_integer(group));
		json_print_event("partition", line);
		json_decref(line);
	}
	close_named(&n);
	return rc;
}

/* The name comes by standard input, like that of an object, and the commands follow it. Reads it
 * byte by byte, because the bytes after it belong to topic_serve. */
static char *read_name(void)
{
	struct buf line = BUF_INIT;
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		buf_append(&line, &c, 1);
	buf_append(&line, "", 1);
	return (char *)line.data;
}

static enum err_code read_topic(const char *word, const struct options *o, struct err *e)
{
	struct named n = { .options = DATA_OPTIONS_INIT };
	char *name = strcmp(word, "-") == 0 ? read_name() : mem_strdup(word);
	enum err_code rc = open_named(name, is_left, &n, e);

	(void)o;
	if (!rc)
		rc = topic_serve(n.topic, STDIN_FILENO, STDOUT_FILENO, e);
	close_named(&n);
	free(name);
	return rc;
}

static const struct action {
	const char *name;
	enum err_code (*run)(const char *name, const struct options *o, struct err *e);
} actions[] = {
	{ "ls", list_partitions },
	{ "read", read_topic },
};

static int run_topic(const struct ctl_cmd *self, int argc, char **argv)
{
	struct sigaction action = { .sa_handler = request_stop };
	struct options o = { 0 };
	const struct action *a;
	struct err e = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	a = CTL_ACTION(self, argv[1], actions);
	if (!a)
		return 2;
	if (nargs != 2)
		return ctl_report_misuse(self, "%s takes one name", a->name);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	return a->run(argv[2], &o, &e) == ERR_OK ? 0 : ctl_fail(&e);
}

const struct ctl_cmd ctl_cmd_topic = {
	"topic",
	{
	    .prog = "ps-ctl topic",
	    .args = "ls NAME | read NAME",
	    .about = "list or read a Kafka topic that job.data names",
	    .more =
	        "ls prints the oldest event, the end, and the committed offset of the group for each partition.\n"
	        "Workers run read to get events; format/log_record.h in the sources describes the protocol.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 2,
	    .examples = "  ps-ctl topic ls 'kafka://localhost:9092/clicks?group=model'\n",
	},
	run_topic,
};
