/* SPDX-License-Identifier: ISC */
#include "format/frames.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#include "core/endian.h"
#include "core/mem.h"

#define MAGIC           0xfd2fb528u
#define MAGIC_SKIPPABLE 0x184d2a50u /* and the 15 numbers after it */
#define HEADER_MAX      18u
#define BLOCK_RLE       1u

struct walk {
	int fd;
	const char *name;
	uint64_t size;
};

static enum err_code report_damage(const struct walk *w, uint64_t at, struct err *e)
{
	return err_set(e, ERR_FORMAT, "\"%s\" is corrupt zstd data: no frame at byte %llu", w->name,
	    (unsigned long long)at);
}

/* Reads at most n bytes. */
static enum err_code read_bytes(const struct walk *w, uint64_t at, uint8_t *p, size_t n,
    size_t *got, struct err *e)
{
	ssize_t r;

	do
		r = pread(w->fd, p, n, (off_t)at);
	while (r < 0 && errno == EINTR);
	*got = r < 0 ? 0 : (size_t)r;
	return r < 0 ? err_sys(e, ERR_IO, "cannot read \"%s\"", w->name) : ERR_OK;
}

/* Bytes of the header of a frame with this descriptor: its first four bytes, the descriptor, and
 * what the descriptor says. */
static size_t header_size(uint8_t descriptor)
{
	static const uint8_t dictionary[] = { 0, 1, 2, 4 }, content[] = { 0, 2, 4, 8 };
	bool single = descriptor >> 5 & 1;
	size_t n = content[descriptor >> 6];

	return 5 + !single + dictionary[descriptor & 3] + (single && n == 0 ? 1 : n);
}

/* Moves *at from the first block of a frame to the end of the frame. *whole is false when the
 * frame, which began at `begin`, is longer than `most`. */
static enum err_code skip_blocks(const struct walk *w, uint64_t begin, uint64_t most, bool checksum,
    uint64_t *at, bool *whole, struct err *e)
{
	uint8_t head[3];
	bool last = false;
	enum err_code rc;
	size_t got;

	while (!last && *at - begin <= most) {
		uint32_t h;

		rc = read_bytes(w, *at, head, sizeof head, &got, e);
		if (rc)
			return rc;
		if (got < sizeof head)
			return report_damage(w, begin, e);
		h = (uint32_t)(head[0] | head[1] << 8 | head[2] << 16);
		last = h & 1;
		*at += sizeof head + ((h >> 1 & 3) == BLOCK_RLE ? 1 : h >> 3);
	}
	*at += checksum ? 4 : 0;
	*whole = last;
	return ERR_OK;
}

/* Moves *at past the frame there. *content: it is not a skippable one. *whole as in skip_blocks. */
static enum err_code skip_frame(const struct walk *w, uint64_t *at, uint64_t most, bool *content,
    bool *whole, struct err *e)
{
	uint8_t head[HEADER_MAX];
	uint64_t begin = *at;
	size_t got;
	enum err_code rc = read_bytes(w, begin, head, sizeof head, &got, e);
	uint32_t magic = !rc && got >= 8 ? get_le32(head) : 0;

	*content = magic == MAGIC;
	*whole = true;
	if (rc)
		return rc;
	if ((magic & ~15u) == MAGIC_SKIPPABLE) {
		*at += 8 + (uint64_t)get_le32(head + 4);
	} else if (magic == MAGIC) {
		*at += header_size(head[4]);
		rc = skip_blocks(w, begin, most, head[4] >> 2 & 1, at, whole, e);
	} else {
		rc = report_damage(w, begin, e);
	}
	return !rc && *whole && *at > w->size ? report_damage(w, begin, e) : rc;
}

enum err_code frames_find(int fd, const char *name, uint64_t size, uint64_t most, uint64_t **at,
    size_t *n, struct err *e)
{
	struct walk w = { fd, name, size };
	uint64_t place = 0;
	bool whole = true;
	enum err_code rc = ERR_OK;

	*at = NULL;
	*n = 0;
	while (!rc && whole && place < size) {
		uint64_t begin = place;
		bool content;

		rc = skip_frame(&w, &place, most, &content, &whole, e);
		if (rc || !content)
			continue;
		if ((*n & (*n - 1)) == 0)
			*at = mem_regrow(*at, *n ? 2 * *n : 1, sizeof **at);
		(*at)[*n] = *n ? begin : 0;
		++*n;
	}
	if (!rc && *n == 0)
		rc = report_damage(&w, 0, e);
	if (rc) {
		free(*at);
		*at = NULL;
	}
	return rc;
}
