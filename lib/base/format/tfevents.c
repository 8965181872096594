/* SPDX-License-Identifier: ISC */
#include "format/tfevents.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/endian.h"
#include "core/mem.h"

struct tfevents {
	int fd;
	double wall;
	int64_t step;
	struct buf summary, value, histo, record;
};

/* ---- records ---- */

/* CRC-32C (Castagnoli), bit by bit, which is enough for some kilobytes a second. */
static uint32_t compute_crc32c(const uint8_t *p, size_t n)
{
	uint32_t crc = UINT32_MAX;

	while (n--) {
		crc ^= *p++;
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	return ~crc;
}

/* TFRecord masks CRCs, because a CRC over bytes that contain CRCs is weak. */
static uint32_t mask_crc(uint32_t crc)
{
	return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* Appends a TFRecord to the file. */
static enum err_code append_record(struct tfevents *t, const struct buf *event, struct err *e)
{
	off_t before = lseek(t->fd, 0, SEEK_END);
	uint8_t head[12], tail[4];
	ssize_t n;

	put_le64(head, event->len);
	put_le32(head + 8, mask_crc(compute_crc32c(head, 8)));
	put_le32(tail, mask_crc(compute_crc32c(event->data, event->len)));
	buf_clear(&t->record);
	buf_append(&t->record, head, sizeof head);
	buf_append(&t->record, event->data, event->len);
	buf_append(&t->record, tail, sizeof tail);
	n = write(t->fd, t->record.data, t->record.len);
	if (n == (ssize_t)t->record.len)
		return ERR_OK;
	if (n >= 0)
		errno = ENOSPC;
	err_sys(e, ERR_IO, "cannot write TensorBoard's events");
	/* Readers stop at half a record: remove it. */
	if (n > 0 && ftruncate(t->fd, before))
		return ERR_IO;
	return ERR_IO;
}

/* ---- protobuf ---- */

enum wire_type { VARINT, FIXED64, LEN, FIXED32 = 5 };

static void put_varint(struct buf *b, uint64_t v)
{
	uint8_t byte;

	for (; v >= 0x80; v >>= 7) {
		byte = (uint8_t)(v | 0x80);
		buf_append(b, &byte, 1);
	}
	byte = (uint8_t)v;
	buf_append(b, &byte, 1);
}

static void put_tag(struct buf *b, unsigned field, enum wire_type type)
{
	put_varint(b, field << 3 | type);
}

static void put_double(struct buf *b, unsigned field, double v)
{
	put_tag(b, field, FIXED64);
	buf_append(b, &v, sizeof v);
}

static void put_proto_bytes(struct buf *b, unsigned field, const void *p, size_t n)
{
	put_tag(b, field, LEN);
	put_varint(b, n);
	buf_append(b, p, n);
}

/* ---- events ---- */

static enum err_code put_version(struct tfevents *t, struct err *e)
{
	static const char version[] = "brain.Event:2";
	struct buf event = BUF_INIT;
	enum err_code rc;

	put_double(&event, 1, (double)clock_wall() / NSEC_PER_SEC);
	put_proto_bytes(&event, 3, version, strlen(version));
	rc = append_record(t, &event, e);
	buf_release(&event);
	return rc;
}

enum err_code tfevents_open(const char *dir, struct tfevents **out, struct err *e)
{
	struct tfevents *t;
	char host[64] = "", *path;
	enum err_code rc;
	int fd;

	gethostname(host, sizeof host - 1);
	path = mem_printf("%s/events.out.tfevents.%010lld.%s.%d", dir,
	    (long long)(clock_wall() / NSEC_PER_SEC), host, (int)getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0) {
		rc = err_sys(e, ERR_IO, "cannot write %s", path);
		free(path);
		return rc;
	}
	t = mem_alloc(sizeof *t);
	t->fd = fd;
	rc = put_version(t, e);
	if (rc)
		unlink(path);
	free(path);
	if (rc) {
		tfevents_close(t);
		return rc;
	}
	*out = t;
	return ERR_OK;
}

void tfevents_close(struct tfevents *t)
{
	if (!t)
		return;
	close(t->fd);
	buf_release(&t->summary);
	buf_release(&t->value);
	buf_release(&t->histo);
	buf_release(&t->record);
	free(t);
}

void tfevents_begin(struct tfevents *t, double wall, int64_t step)
{
	t->wall = wall;
	t->step = step;
	buf_clear(&t->summary);
}

static void append_value(struct tfevents *t)
{
	put_proto_bytes(&t->summary, 1, t->value.data, t->value.len);
}

void tfevents_scalar(struct tfevents *t, const char *tag, double value)
{
	float v = (float)value;

	if (!isfinite(v))
		return;
	buf_clear(&t->value);
	put_proto_bytes(&t->value, 1, tag, strlen(tag));
	put_tag(&t->value, 2, FIXED32);
	buf_append(&t->value, &v, sizeof v);
	append_value(t);
}

void tfevents_histogram(struct tfevents *t, const char *tag, const struct tfevents_histogram *h)
{
	struct buf *b = &t->histo;
	double n = 0;

	for (size_t i = 0; i < h->n; i++)
		n += h->count[i];
	if (!isfinite(n + h->min + h->max + h->sum + h->sum_squares))
		return;
	buf_clear(b);
	put_double(b, 1, h->min);
	put_double(b, 2, h->max);
	put_double(b, 3, n);
	put_double(b, 4, h->sum);
	put_double(b, 5, h->sum_squares);
	put_proto_bytes(b, 6, h->limit, h->n * sizeof *h->limit);
	put_proto_bytes(b, 7, h->count, h->n * sizeof *h->count);
	buf_clear(&t->value);
	put_proto_bytes(&t->value, 1, tag, strlen(tag));
	put_proto_bytes(&t->value, 5, b->data, b->len);
	append_value(t);
}

enum err_code tfevents_end(struct tfevents *t, struct err *e)
{
	struct buf event = BUF_INIT;
	enum err_code rc;

	if (!t->summary.len)
		return ERR_OK;
	put_double(&event, 1, t->wall);
	put_tag(&event, 2, VARINT);
	put_varint(&event, (uint64_t)t->step);
	put_proto_bytes(&event, 5, t->summary.data, t->summary.len);
	rc = append_record(t, &event, e);
	buf_release(&event);
	return rc;
}
