/* SPDX-License-Identifier: ISC */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "tests/fault/ledger.h"

#define BOOK_MAX (1u << 30)

struct book {
	int fd;
	char *path;
};

uint64_t ledger_row(const struct table *rows, uint32_t rank, uint32_t cell)
{
	uint64_t id = (uint64_t)cell << 16;

	for (uint32_t before = 0;; id++)
		if (table_part_of(rows, id) == cell % rows->nparts && before++ == rank)
			return id;
}

uint32_t ledger_unit(const struct conf *c)
{
	uint32_t unit = 1;

	for (uint32_t n = 2; n <= c->workers.max; n++) {
		uint32_t step = unit;

		while (unit % n)
			unit += step;
	}
	return unit;
}

/* ---- writing ---- */

enum err_code book_open(const char *dir, uint32_t rank, uint64_t incarnation, struct book **out,
    struct err *e)
{
	struct book *b = mem_alloc(sizeof *b);

	b->path = mem_printf("%s/%" PRIu32 "-%016" PRIx64, dir, rank, incarnation);
	b->fd = open(b->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (b->fd < 0) {
		err_sys(e, ERR_IO, "cannot create \"%s\"", b->path);
		book_close(b);
		return ERR_IO;
	}
	*out = b;
	return ERR_OK;
}

void book_close(struct book *b)
{
	if (!b)
		return;
	if (b->fd >= 0)
		close(b->fd);
	free(b->path);
	free(b);
}

enum err_code book_begin(struct book *b, uint64_t step, struct err *e)
{
	char line[48];
	int n = snprintf(line, sizeof line, "begin %" PRIu64 "\n", step);
	enum err_code rc = file_write_all(b->fd, line, (size_t)n, e);

	if (!rc && fdatasync(b->fd))
		rc = err_sys(e, ERR_IO, "cannot sync \"%s\"", b->path);
	return rc;
}

enum err_code book_ack(struct book *b, uint64_t step, uint32_t dense, uint32_t sparse,
    struct err *e)
{
	char line[80];
	int n = snprintf(line, sizeof line, "ack %" PRIu64 " %" PRIu32 " %" PRIu32 "\n", step,
	    dense, sparse);

	return file_write_all(b->fd, line, (size_t)n, e);
}

enum err_code book_not_applied(struct book *b, uint64_t step, struct err *e)
{
	char line[48];
	int n = snprintf(line, sizeof line, "doubt %" PRIu64 "\n", step);

	return file_write_all(b->fd, line, (size_t)n, e);
}

/* ---- reading ---- */

/* One line.  Sorted, an ack precedes a begin of the same step, so that the ack counts. */
struct entry {
	uint64_t step;
	bool begin;
	uint64_t dense, sparse;
};

static bool parse_book_line(char *line, struct entry *out)
{
	char *save = NULL, *word = strtok_r(line, " ", &save), *step = strtok_r(NULL, " ", &save);
	char *dense = strtok_r(NULL, " ", &save), *sparse = strtok_r(NULL, " ", &save);

	*out = (struct entry){ .begin = word && word[0] != 'a' };
	return word && step && num_uint(step, UINT64_MAX, &out->step) &&
	    (out->begin ||
	        (dense && sparse && num_uint(dense, UINT32_MAX, &out->dense) &&
	            num_uint(sparse, UINT32_MAX, &out->sparse)));
}

/* Reads one book.  A last line without a newline is ignored: its writer died while writing it. */
static enum err_code read_book_file(const char *path, struct buf *entries, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc = file_read(path, BOOK_MAX, &text, e);
	char *line = (char *)text.data, *end;

	while (!rc && text.len && (end = strchr(line, '\n'))) {
		struct entry entry;

		*end = 0;
		if (!parse_book_line(line, &entry))
			rc = err_set(e, ERR_FORMAT, "\"%s\": a line \"%.40s\"", path, line);
		else
			buf_append(entries, &entry, sizeof entry);
		line = end + 1;
	}
	buf_release(&text);
	return rc;
}

static int compare_entry_steps(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->step != y->step ? (x->step > y->step) - (x->step < y->step) : x->begin - y->begin;
}

/* Adds up the entries of a rank.  A step counts once, even if several incarnations began it.  Acknowledgements
 * count before this step. */
static void count_entries(struct buf *entries, uint32_t cells, uint64_t before,
    struct tally_cell *out, struct tally *sums)
{
	struct entry *entry = (struct entry *)(void *)entries->data;
	size_t n = entries->len / sizeof *entry;

	if (n)
		qsort(entry, n, sizeof *entry, compare_entry_steps);
	for (size_t i = 0; i < n; i++) {
		struct tally_cell *c = &out[entry[i].step % cells];

		if (i && entry[i].step == entry[i - 1].step)
			continue;
		if (entry[i].step >= sums->beyond)
			sums->beyond = entry[i].step + 1;
		if (!entry[i].begin && entry[i].step >= before)
			continue;
		sums->begun++;
		sums->acked += !entry[i].begin;
		c->open += entry[i].begin;
		c->dense += entry[i].dense;
		c->sparse += entry[i].sparse;
	}
}

static enum err_code read_all_books(const char *dir, DIR *d, struct buf *entries, struct err *e)
{
	enum err_code rc = ERR_OK;
	struct dirent *entry;

	while (!rc && (entry = readdir(d))) {
		char rank[8], *dash = strchr(entry->d_name, '-'), *path;
		int64_t n;

		if (!dash || dash - entry->d_name >= (ptrdiff_t)sizeof rank)
			continue;
		snprintf(rank, sizeof rank, "%.*s", (int)(dash - entry->d_name), entry->d_name);
		if (!num_int(rank, 0, LEDGER_RANKS - 1, &n))
			continue;
		path = path_join(dir, entry->d_name);
		rc = read_book_file(path, &entries[n], e);
		free(path);
	}
	return rc;
}

static bool parse_base_line(const char *line, uint32_t cells, struct tally *out)
{
	unsigned rank, cell, dense, sparse;

	if (sscanf(line, "%u %u %u %u", &rank, &cell, &dense, &sparse) != 4 ||
	    rank >= LEDGER_RANKS || cell >= cells)
		return false;
	out->cell[rank][cell].dense += dense;
	out->cell[rank][cell].sparse += sparse;
	return true;
}

static enum err_code add_base(const char *dir, uint32_t cells, struct tally *out, struct err *e)
{
	struct buf text = BUF_INIT;
	char *path = path_join(dir, "base"), *save = NULL;
	enum err_code rc = access(path, F_OK) ? ERR_OK : file_read(path, BOOK_MAX, &text, e);

	buf_append(&text, "", 1);
	for (char *line = strtok_r((char *)text.data, "\n", &save); line && !rc;
	     line = strtok_r(NULL, "\n", &save))
		if (!parse_base_line(line, cells, out))
			rc = err_set(e, ERR_FORMAT, "\"%s\": a line \"%.40s\"", path, line);
	buf_release(&text);
	free(path);
	return rc;
}

enum err_code tally_write_base(const char *dir, uint32_t ranks, uint32_t cells, const float *dense,
    const float *rows, struct err *e)
{
	struct buf text = BUF_INIT;
	char *path = path_join(dir, "base");
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	enum err_code rc;

	for (uint32_t w = 0; w < ranks; w++)
		for (uint32_t k = 0; k < cells; k++) {
			size_t at = (size_t)w * cells + k;
			char line[64];
			int n = snprintf(line, sizeof line, "%" PRIu32 " %" PRIu32 " %.0f %.0f\n",
			    w, k, (double)dense[at], (double)rows[at * LEDGER_WIDTH]);

			buf_append(&text, line, (size_t)n);
		}
	rc = fd < 0 ? err_sys(e, ERR_IO, "cannot create \"%s\"", path)
	            : file_write_all(fd, text.data, text.len, e);
	if (fd >= 0)
		close(fd);
	buf_release(&text);
	free(path);
	return rc;
}

enum err_code tally_read_before(const char *dir, uint32_t cells, uint64_t step, struct tally *out,
    struct err *e)
{
	struct buf entries[LEDGER_RANKS] = { 0 };
	DIR *d = opendir(dir);
	enum err_code rc;

	*out = (struct tally){ 0 };
	if (!d)
		return err_sys(e, ERR_NOTFOUND, "cannot read the directory \"%s\"", dir);
	rc = read_all_books(dir, d, entries, e);
	closedir(d);
	for (int i = 0; i < LEDGER_RANKS; i++) {
		out->cell[i] = mem_array(cells, sizeof **out->cell);
		count_entries(&entries[i], cells, step, out->cell[i], out);
		buf_release(&entries[i]);
	}
	if (!rc)
		rc = add_base(dir, cells, out, e);
	if (rc)
		tally_release(out);
	return rc;
}

enum err_code tally_read(const char *dir, uint32_t cells, struct tally *out, struct err *e)
{
	return tally_read_before(dir, cells, UINT64_MAX, out, e);
}

void tally_release(struct tally *t)
{
	for (int i = 0; i < LEDGER_RANKS; i++)
		free(t->cell[i]);
	*t = (struct tally){ 0 };
}
