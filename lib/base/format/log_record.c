/* SPDX-License-Identifier: ISC */
#include "format/log_record.h"

#include "core/endian.h"

void log_record_put(struct buf *out, const struct log_record *r, const void *p)
{
	uint8_t *h = buf_reserve(out, LOG_RECORD_BYTES);

	put_le32(h, r->kind);
	put_le32(h + 4, r->partition);
	put_le32(h + 8, r->serial);
	put_le32(h + 12, r->len);
	put_le64(h + 16, (uint64_t)r->place);
	put_le64(h + 24, (uint64_t)r->next);
	buf_commit(out, LOG_RECORD_BYTES);
	buf_append(out, p, r->len);
}

bool log_record_get(const uint8_t header[static LOG_RECORD_BYTES], struct log_record *out)
{
	uint32_t kind = get_le32(header);

	*out = (struct log_record){ .partition = get_le32(header + 4),
		.serial = get_le32(header + 8),
		.len = get_le32(header + 12),
		.place = (int64_t)get_le64(header + 16),
		.next = (int64_t)get_le64(header + 24) };
	if (kind < LOG_RECORD_PARTITIONS || kind > LOG_RECORD_END || out->len > LOG_RECORD_LEN_MAX)
		return false;
	out->kind = (enum log_record_kind)kind;
	return true;
}
