/* SPDX-License-Identifier: ISC */
#include "kafka/topic.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "format/log_record.h"

/* Time limit of one request to a broker; it is made again until `stop`. */
#define REQUEST_MS 1000
/* Events that are taken from a partition at once. */
#define TAKE 512u
/* How often the end of a partition's log is reported, at most. */
#define END_EVERY (100 * NSEC_PER_MSEC)

struct part {
	bool reading;
	rd_kafka_queue_t *queue;
	uint32_t serial;
	/* events, and bytes of them, that may still be sent; the last one may exceed that */
	int64_t credit, bytes;
	/* messages taken from the queue, of which those before `at` were sent; librdkafka bounds
	 * their bytes */
	rd_kafka_message_t **taken;
	size_t ntaken, at;
	int64_t next; /* place of the next event */
	int64_t end;  /* end of the log as it was reported last; -1: not yet */
	int64_t told_at;
};

struct topic {
	struct topic_config cfg;
	rd_kafka_t *rk;
	rd_kafka_topic_t *rkt;
	struct part *part;
	uint32_t n;
	int wake[2]; /* a pipe: librdkafka writes a byte when a queue is no longer empty */
	/* set by the callback for errors, which runs in rd_kafka_poll */
	bool down, refused;
	char why[400]; /* the last error of a connection */
};

static void tell(const struct topic *t, bool warning, const char *text)
{
	t->cfg.tell(t->cfg.ctx, warning, text);
}

/* ---- errors ---- */

static void take_error(rd_kafka_t *rk, int code, const char *reason, void *ctx)
{
	struct topic *t = ctx;
	char text[800];

	(void)rk;
	if ((code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__RESOLVE) &&
	    !t->refused)
		snprintf(t->why, sizeof t->why, "%s", reason);
	if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION || code == RD_KAFKA_RESP_ERR__SSL ||
	    code == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED) {
		t->refused = true;
		snprintf(t->why, sizeof t->why, "%s", reason);
	} else if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && !t->down) {
		t->down = true;
		snprintf(text, sizeof text,
		    "kafka: no broker of %s answers; trying again until one does%s%s%s",
		    t->cfg.brokers, t->why[0] ? " (" : "", t->why, t->why[0] ? ")" : "");
		tell(t, true, text);
	}
}

/* A broker has answered. */
static void note_answer(struct topic *t)
{
	if (t->down)
		tell(t, false, "kafka: a broker answers again");
	t->down = false;
	if (!t->refused)
		t->why[0] = '\0';
}

/* Is this error of a request one that ends by itself? */
static bool is_passing(rd_kafka_resp_err_t code)
{
	return code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__TIMED_OUT ||
	    code == RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE || code == RD_KAFKA_RESP_ERR__WAIT_COORD ||
	    code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || code == RD_KAFKA_RESP_ERR__RESOLVE ||
	    code == RD_KAFKA_RESP_ERR__WAIT_CACHE ||
	    code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
	    code == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION ||
	    code == RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS ||
	    code == RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE ||
	    code == RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT ||
	    code == RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION;
}

static enum err_code fail_request(const struct topic *t, rd_kafka_resp_err_t code, struct err *e)
{
	if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
	    code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
	    code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
		return err_set(e, ERR_NOTFOUND, "kafka: %s has no topic \"%s\"; create it first",
		    t->cfg.brokers, t->cfg.name);
	if (code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
	    code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)
		return err_set(e, ERR_AUTH, "kafka: the broker does not permit reading \"%s\": %s",
		    t->cfg.name, rd_kafka_err2str(code));
	return err_set(e, ERR_IO, "kafka: topic \"%s\": %s", t->cfg.name, rd_kafka_err2str(code));
}

/* After a request that failed: serves the callbacks, and says whether to try again. */
static enum err_code may_retry_request(struct topic *t, rd_kafka_resp_err_t code, struct err *e)
{
	/* Requests that fail at once must not be made in a busy loop. */
	rd_kafka_poll(t->rk, 100);
	if (t->refused)
		return err_set(e, ERR_AUTH, "kafka: %s refuses the connection: %s", t->cfg.brokers,
		    t->why);
	if (t->cfg.stop(t->cfg.ctx))
		return err_set(e, ERR_STOPPED, "interrupted");
	return is_passing(code) ? ERR_OK : fail_request(t, code, e);
}

/* ---- configuration ---- */

static enum err_code set_property(rd_kafka_conf_t *conf, const char *key, const char *value,
    struct err *e)
{
	char why[256];

	if (rd_kafka_conf_set(conf, key, value, why, sizeof why) == RD_KAFKA_CONF_OK)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "kafka: %s", why);
}

/* Sets the properties of a file. A line that begins with # is a comment. */
static enum err_code load_properties(rd_kafka_conf_t *conf, const char *path, struct err *e)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0, number = 0;
	enum err_code rc = ERR_OK;

	if (!f)
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open %s", path);
	while (!rc && getline(&line, &cap, f) >= 0) {
		char *key = line + strspn(line, " \t"), *eq = strchr(key, '='), *value;

		number++;
		line[strcspn(line, "\r\n")] = '\0';
		if (!*key || *key == '#')
			continue;
		if (!eq) {
			rc = err_set(e, ERR_CONFIG, "%s:%zu: expected key=value", path, number);
			break;
		}
		value = eq + 1 + strspn(eq + 1, " \t");
		while (eq > key && (eq[-1] == ' ' || eq[-1] == '\t'))
			eq--;
		*eq = '\0';
		rc = set_property(conf, key, value, e);
		if (rc)
			err_prefix(e, "%s:%zu", path, number);
	}
	free(line);
	fclose(f);
	return rc;
}

/* The settings that we rely on come last, so that the file does not change them. */
static enum err_code make_consumer(struct topic *t, struct err *e)
{
	static const char *const ours[][2] = {
		{ "enable.auto.commit", "false" },
		{ "enable.auto.offset.store", "false" },
		{ "enable.partition.eof", "true" },
		{ "auto.offset.reset", "error" },
		{ "isolation.level", "read_committed" },
		{ "allow.auto.create.topics", "false" },
	};
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[256];
	enum err_code rc = ERR_OK;

	/* An event is to be seen soon, and a broker that is back, too. */
	rc = set_property(conf, "fetch.wait.max.ms", "100", e);
	if (!rc)
		rc = set_property(conf, "fetch.error.backoff.ms", "100", e);
	if (!rc)
		rc = set_property(conf, "reconnect.backoff.max.ms", "1000", e);
	if (!rc)
		rc = set_property(conf, "queued.max.messages.kbytes", "4096", e);
	if (!rc)
		rc = set_property(conf, "client.id", "pskit", e);
	if (!rc && t->cfg.properties)
		rc = load_properties(conf, t->cfg.properties, e);
	for (size_t i = 0; !rc && i < sizeof ours / sizeof ours[0]; i++)
		rc = set_property(conf, ours[i][0], ours[i][1], e);
	if (!rc)
		rc = set_property(conf, "bootstrap.servers", t->cfg.brokers, e);
	if (!rc)
		rc = set_property(conf, "group.id", t->cfg.group, e);
	rd_kafka_conf_set_error_cb(conf, take_error);
	rd_kafka_conf_set_opaque(conf, t);
	/* Its own log would repeat each attempt to connect. */
	rd_kafka_conf_set_log_cb(conf, NULL);
	if (!rc) {
		t->rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
		if (!t->rk)
			rc = err_set(e, ERR_CONFIG, "kafka: %s", why);
	}
	if (rc)
		rd_kafka_conf_destroy(conf);
	else
		t->rkt = rd_kafka_topic_new(t->rk, t->cfg.name, NULL);
	if (!rc && !t->rkt)
		rc = err_set(e, ERR_CONFIG, "kafka: topic \"%s\": %s", t->cfg.name,
		    rd_kafka_err2str(rd_kafka_last_error()));
	return rc;
}

/* Asks how many partitions the topic has, until a broker says so. */
static enum err_code find_partitions(struct topic *t, struct err *e)
{
	uint32_t before = t->n, n = 0;
	enum err_code rc = ERR_OK;

	while (!rc && !n) {
		const struct rd_kafka_metadata *m = NULL;
		rd_kafka_resp_err_t code = rd_kafka_metadata(t->rk, 0, t->rkt, &m, REQUEST_MS);

		if (!code && m->topic_cnt == 1 && !m->topics[0].err)
			n = (uint32_t)m->topics[0].partition_cnt;
		if (!code && !n)
			code = m->topic_cnt == 1 && m->topics[0].err
			    ? m->topics[0].err
			    : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
		if (m)
			rd_kafka_metadata_destroy(m);
		if (!n)
			rc = may_retry_request(t, code, e);
	}
	if (rc)
		return rc;
	note_answer(t);
	if (n > before) {
		t->part = mem_regrow(t->part, n, sizeof *t->part);
		memset(t->part + before, 0, (n - before) * sizeof *t->part);
		t->n = n;
	}
	return ERR_OK;
}

enum err_code topic_open(const struct topic_config *cfg, struct topic **out, struct err *e)
{
	struct topic *t = mem_alloc(sizeof *t);
	enum err_code rc = ERR_OK;

	*out = NULL;
	t->cfg = *cfg;
	if (pipe2(t->wake, O_CLOEXEC | O_NONBLOCK)) {
		free(t);
		return err_sys(e, ERR_IO, "cannot make a pipe");
	}
	rc = make_consumer(t, e);
	if (!rc)
		rc = find_partitions(t, e);
	if (rc) {
		topic_close(t);
		return rc;
	}
	*out = t;
	return ERR_OK;
}

void topic_close(struct topic *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; t->part && i < t->n; i++)
		topic_drop(t, i);
	if (t->rkt)
		rd_kafka_topic_destroy(t->rkt);
	if (t->rk)
		rd_kafka_destroy(t->rk);
	close(t->wake[0]);
	close(t->wake[1]);
	free(t->part);
	free(t);
}

uint32_t topic_partitions(const struct topic *t)
{
	return t->n;
}

int topic_fd(const struct topic *t)
{
	return t->wake[0];
}

/* ---- places ---- */

static enum err_code find_watermarks(struct topic *t, uint32_t partition, int64_t *oldest,
    int64_t *end, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (;;) {
		rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(t->rk, t->cfg.name,
		    (int32_t)partition, oldest, end, REQUEST_MS);

		if (!code) {
			note_answer(t);
			return ERR_OK;
		}
		rc = may_retry_request(t, code, e);
		if (rc)
			return rc;
	}
}

static enum err_code find_committed(struct topic *t, uint32_t partition, int64_t *place,
    struct err *e)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
	rd_kafka_topic_partition_t *one = rd_kafka_topic_partition_list_add(list, t->cfg.name,
	    (int32_t)partition);
	enum err_code rc = ERR_OK;

	for (;;) {
		rd_kafka_resp_err_t code = rd_kafka_committed(t->rk, list, REQUEST_MS);

		if (!code)
			code = one->err;
		if (!code)
			break;
		rc = may_retry_request(t, code, e);
		if (rc)
			break;
	}
	*place = rc || one->offset < 0 ? -1 : one->offset;
	rd_kafka_topic_partition_list_destroy(list);
	return rc;
}

enum err_code topic_offsets(struct topic *t, uint32_t partition, int64_t *oldest, int64_t *end,
    int64_t *group, struct err *e)
{
	enum err_code rc = find_watermarks(t, partition, oldest, end, e);

	return rc ? rc : find_committed(t, partition, group, e);
}

/* The place where a new job begins. */
static enum err_code find_begin_offset(struct topic *t, uint32_t partition, int64_t *place,
    struct err *e)
{
	int64_t oldest = 0, end = 0, group = -1;
	enum err_code rc = find_watermarks(t, partition, &oldest, &end, e);

	if (!rc && strcmp(t->cfg.from, "group") == 0)
		rc = find_committed(t, partition, &group, e);
	if (strcmp(t->cfg.from, "end") == 0)
		*place = end;
	else if (strcmp(t->cfg.from, "begin") == 0)
		*place = oldest;
	else if (strcmp(t->cfg.from, "group") == 0)
		*place = group >= 0 ? group : oldest;
	else
		*place = strtoll(t->cfg.from, NULL, 10);
	return rc;
}

/* ---- reading ---- */

static enum err_code start_reading(struct topic *t, uint32_t partition, struct err *e)
{
	struct part *p = &t->part[partition];

	p->queue = rd_kafka_queue_new(t->rk);
	if (rd_kafka_consume_start_queue(t->rkt, (int32_t)partition, p->next, p->queue)) {
		rd_kafka_queue_destroy(p->queue);
		p->queue = NULL;
		return fail_request(t, rd_kafka_last_error(), e);
	}
	rd_kafka_queue_io_event_enable(p->queue, t->wake[1], "q", 1);
	p->taken = mem_array(TAKE, sizeof *p->taken);
	p->ntaken = p->at = 0;
	p->reading = true;
	return ERR_OK;
}

static enum err_code fail_partition(const struct topic *t, uint32_t partition, struct err *e)
{
	return err_set(e, ERR_NOTFOUND, "kafka: topic \"%s\" has no partition %" PRIu32,
	    t->cfg.name, partition);
}

enum err_code topic_seek(struct topic *t, uint32_t partition, int64_t place, uint32_t serial,
    struct topic_credit n, struct buf *out, struct err *e)
{
	int64_t end;
	enum err_code rc = ERR_OK;
	struct part *p;

	/* The topic may have got more partitions since it was opened. */
	if (partition >= t->n)
		rc = find_partitions(t, e);
	if (!rc && partition >= t->n)
		rc = fail_partition(t, partition, e);
	if (rc)
		return rc;
	topic_drop(t, partition);
	p = &t->part[partition];
	if (place == -1)
		rc = find_begin_offset(t, partition, &place, e);
	else if (place < 0)
		rc = find_watermarks(t, partition, &place, &end, e);
	if (rc)
		return rc;
	p->serial = serial;
	p->credit = n.events;
	p->bytes = n.bytes;
	p->next = place;
	p->end = -1;
	p->told_at = 0;
	log_record_put(out,
	    &(struct log_record){ .kind = LOG_RECORD_SEEK,
	        .partition = partition,
	        .serial = serial,
	        .place = place },
	    NULL);
	return start_reading(t, partition, e);
}

void topic_more(struct topic *t, uint32_t partition, struct topic_credit n)
{
	if (partition < t->n && t->part[partition].reading) {
		t->part[partition].credit += n.events;
		t->part[partition].bytes += n.bytes;
	}
}

void topic_drop(struct topic *t, uint32_t partition)
{
	struct part *p = partition < t->n ? &t->part[partition] : NULL;

	if (!p || !p->reading)
		return;
	p->reading = false;
	rd_kafka_consume_stop(t->rkt, (int32_t)partition);
	rd_kafka_queue_io_event_enable(p->queue, -1, NULL, 0);
	for (; p->at < p->ntaken; p->at++)
		rd_kafka_message_destroy(p->taken[p->at]);
	free(p->taken);
	p->taken = NULL;
	rd_kafka_queue_destroy(p->queue);
	p->queue = NULL;
}

void topic_commit(struct topic *t, uint32_t partition, int64_t place)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);

	rd_kafka_topic_partition_list_add(list, t->cfg.name, (int32_t)partition)->offset = place;
	/* Nobody's correctness depends on it, so its result does not matter. */
	rd_kafka_commit(t->rk, list, 1);
	rd_kafka_topic_partition_list_destroy(list);
}

/* The place that we wait for is not in the log. A place after the end means that the topic is
 * another one: no event of the old one is left, and the new ones have the offsets of the old
 * ones. */
static enum err_code handle_deleted(struct topic *t, uint32_t partition, struct buf *out,
    struct err *e)
{
	struct part *p = &t->part[partition];
	int64_t oldest = 0, end = 0;
	char text[512];
	enum err_code rc = find_watermarks(t, partition, &oldest, &end, e);

	if (rc)
		return rc;
	if (p->next > end)
		return err_set(e, ERR_IO,
		    "kafka: %s[%" PRIu32 "] ends at %" PRId64 ", but training is at %" PRId64
		    ": the topic was deleted and created again, or its end was lost; start a new job with "
		    "--init-from to train the model on the events that it has",
		    t->cfg.name, partition, end, p->next);
	if (!t->cfg.skip_deleted)
		return err_set(e, ERR_IO,
		    "kafka: %s[%" PRIu32 "] has events %" PRId64 " to %" PRId64
		    ", but training is at %" PRId64
		    ": events were deleted before they were read; deleted=skip skips them",
		    t->cfg.name, partition, oldest, end, p->next);
	snprintf(text, sizeof text,
	    "kafka: %s[%" PRIu32 "]: events %" PRId64 " to %" PRId64
	    " were deleted before they were read; they are skipped",
	    t->cfg.name, partition, p->next, oldest);
	tell(t, true, text);
	log_record_put(out,
	    &(struct log_record){ .kind = LOG_RECORD_SKIP,
	        .partition = partition,
	        .serial = p->serial,
	        .place = p->next,
	        .next = oldest },
	    NULL);
	topic_drop(t, partition);
	p->next = oldest;
	return start_reading(t, partition, e);
}

/* Appends an event, or what is in its place. *restarted: the partition has another queue now. */
static enum err_code take_message(struct topic *t, uint32_t partition, const rd_kafka_message_t *m,
    struct buf *out, bool *restarted, struct err *e)
{
	struct part *p = &t->part[partition];
	struct log_record r = { .kind = LOG_RECORD_EVENT,
		.partition = partition,
		.serial = p->serial,
		.place = m->offset,
		.next = m->offset + 1 };

	if (m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
	    m->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE) {
		*restarted = true;
		return handle_deleted(t, partition, out, e);
	}
	if (m->err && m->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
		return is_passing(m->err) ? ERR_OK : fail_request(t, m->err, e);
	note_answer(t);
	if (!m->err && m->len > LOG_RECORD_LEN_MAX)
		return err_set(e, ERR_LIMIT,
		    "kafka: %s[%" PRIu32 "] has an event of %zu bytes at %" PRId64
		    ", and events may have %" PRIu32,
		    t->cfg.name, partition, m->len, m->offset, LOG_RECORD_LEN_MAX);
	if (!m->err && (!m->payload || !m->len))
		r.kind = LOG_RECORD_SKIP;
	if (m->err) {
		/* The end of the log may lie after records of transactions, which are not
		 * events. */
		r.kind = LOG_RECORD_SKIP;
		r.place = p->next;
		r.next = m->offset;
		if (m->offset <= p->next)
			return ERR_OK;
	}
	r.len = r.kind == LOG_RECORD_EVENT ? (uint32_t)m->len : 0;
	p->credit -= r.kind == LOG_RECORD_EVENT;
	p->bytes -= r.len;
	p->next = r.next;
	log_record_put(out, &r, m->payload);
	return ERR_OK;
}

/* Tells where the log ends, when that has changed. */
static void take_end(struct topic *t, uint32_t partition, struct buf *out)
{
	struct part *p = &t->part[partition];
	int64_t oldest, end, now = clock_now();

	if (now - p->told_at < END_EVERY)
		return;
	p->told_at = now;
	if (rd_kafka_get_watermark_offsets(t->rk, t->cfg.name, (int32_t)partition, &oldest, &end) ||
	    end == p->end || end < 0)
		return;
	p->end = end;
	log_record_put(out,
	    &(struct log_record){ .kind = LOG_RECORD_END,
	        .partition = partition,
	        .serial = p->serial,
	        .place = end },
	    NULL);
}

/* Takes messages from the queue when all are sent that were taken before. False: there is none. */
static bool have_message(struct part *p)
{
	ssize_t n;

	if (p->at < p->ntaken)
		return true;
	n = rd_kafka_consume_batch_queue(p->queue, 0, p->taken, TAKE);
	p->at = 0;
	p->ntaken = n > 0 ? (size_t)n : 0;
	return n > 0;
}

static enum err_code take_partition(struct topic *t, uint32_t partition, struct buf *out,
    struct err *e)
{
	struct part *p = &t->part[partition];
	bool restarted = false;
	enum err_code rc = ERR_OK;

	while (!rc && !restarted && p->credit > 0 && p->bytes > 0 && have_message(p)) {
		rd_kafka_message_t *m = p->taken[p->at++];

		rc = take_message(t, partition, m, out, &restarted, e);
		rd_kafka_message_destroy(m);
	}
	if (!rc)
		take_end(t, partition, out);
	return rc;
}

enum err_code topic_take(struct topic *t, struct buf *out, struct err *e)
{
	char some[256];
	enum err_code rc = ERR_OK;

	while (read(t->wake[0], some, sizeof some) > 0)
		;
	rd_kafka_poll(t->rk, 0);
	if (t->refused)
		return err_set(e, ERR_AUTH, "kafka: %s refuses the connection: %s", t->cfg.brokers,
		    t->why);
	for (uint32_t i = 0; !rc && i < t->n; i++)
		if (t->part[i].reading)
			rc = take_partition(t, i, out, e);
	return rc;
}
