/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "format/log_record.h"
#include "kafka/topic.h"

/* How often the callbacks and the ends of the logs are looked at while nothing arrives. */
#define LOOK_MS 100

/* Does one line of the protocol. */
static enum err_code do_command(struct topic *t, const char *line, struct buf *out, struct err *e)
{
	uint32_t partition, serial;
	struct topic_credit n;
	int64_t place;

	if (sscanf(line, "seek %" SCNu32 " %" SCNd64 " %" SCNu32 " %" SCNd64 " %" SCNd64,
	        &partition, &place, &serial, &n.events, &n.bytes) == 5)
		return topic_seek(t, partition, place, serial, n, out, e);
	if (sscanf(line, "more %" SCNu32 " %" SCNd64 " %" SCNd64, &partition, &n.events,
	        &n.bytes) == 3)
		topic_more(t, partition, n);
	else if (sscanf(line, "drop %" SCNu32, &partition) == 1)
		topic_drop(t, partition);
	else if (sscanf(line, "commit %" SCNu32 " %" SCNd64, &partition, &place) == 2)
		topic_commit(t, partition, place);
	else
		return err_set(e, ERR_USAGE, "there is no command \"%s\"", line);
	return ERR_OK;
}

/* Does all whole lines. */
static enum err_code do_commands(struct topic *t, struct buf *in, struct buf *out, struct err *e)
{
	enum err_code rc = ERR_OK;
	char *nl;

	while (!rc && in->len && (nl = memchr(in->data, '\n', in->len))) {
		*nl = '\0';
		rc = do_command(t, (const char *)in->data, out, e);
		buf_consume(in, (size_t)(nl + 1 - (char *)in->data));
	}
	return rc;
}

enum err_code topic_serve(struct topic *t, int in, int out, struct err *e)
{
	struct buf commands = BUF_INIT, records = BUF_INIT;
	enum err_code rc = ERR_OK;
	bool ended = false;

	log_record_put(&records,
	    &(struct log_record){ .kind = LOG_RECORD_PARTITIONS, .partition = topic_partitions(t) },
	    NULL);
	while (!rc && !ended) {
		struct pollfd p[2] = { { in, POLLIN, 0 }, { topic_fd(t), POLLIN, 0 } };

		if (records.len)
			rc = file_write_all(out, records.data, records.len, e);
		buf_clear(&records);
		if (rc || (poll(p, 2, LOOK_MS) < 0 && errno != EINTR))
			break;
		if (p[0].revents) {
			ssize_t n = read(in, buf_reserve(&commands, 4096), 4096);

			ended = n == 0 || (n < 0 && errno != EINTR);
			buf_commit(&commands, n > 0 ? (size_t)n : 0);
			rc = do_commands(t, &commands, &records, e);
		}
		if (!rc && !ended)
			rc = topic_take(t, &records, e);
	}
	buf_release(&commands);
	buf_release(&records);
	return rc;
}
