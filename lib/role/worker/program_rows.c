/* SPDX-License-Identifier: ISC */
#include "worker/program_rows.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"

/* Most rows of a table in one answer. More is an error of the program, or calls for a smaller
 * job.batch. */
#define ROWS_MOST (1u << 24)

struct params_rows *program_rows_new(const struct program_files *f)
{
	for (size_t i = 0; i < f->job->ntables; i++)
		if (f->job->table[i].sparse)
			return mem_array(f->job->ntables, sizeof(struct params_rows));
	return NULL;
}

void program_rows_free(const struct program_files *f, struct params_rows *rows)
{
	for (size_t i = 0; rows && i < f->job->ntables; i++)
		free(rows[i].id);
	free(rows);
}

void program_rows_clear(const struct program_files *f, struct params_rows *rows)
{
	for (size_t i = 0; i < f->job->ntables; i++)
		rows[i].n = 0;
}

static enum err_code check_ascending(const char *path, const struct params_rows *r, struct err *e)
{
	for (size_t k = 1; k < r->n; k++)
		if (r->id[k] <= r->id[k - 1])
			return err_set(e, ERR_FORMAT, "%s: ids must ascend: %llu follows %llu",
			    path, (unsigned long long)r->id[k], (unsigned long long)r->id[k - 1]);
	return ERR_OK;
}

/* Reads the r->n ids of a table. Opens the file by name each time: the program may have replaced
 * it. */
static enum err_code read_ids_file(const struct program_files *f, size_t table,
    struct params_rows *r, struct err *e)
{
	char *path = program_files_path(f, table, "ids");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum err_code rc = ERR_OK;
	struct stat st;

	free(r->id);
	r->id = mem_try_array(r->n + 1, sizeof *r->id);
	if (!r->id)
		rc = err_set(e, ERR_NOMEM, "no memory for %zu ids of table \"%s\"", r->n,
		    f->job->table[table].name);
	else if (fd < 0 || fstat(fd, &st))
		rc = err_sys(e, ERR_FORMAT, "cannot read the ids in %s", path);
	else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != r->n * sizeof *r->id)
		rc = err_set(e, ERR_FORMAT,
		    "%s has %lld bytes, but the %zu ids of the program's answer have %zu bytes",
		    path, (long long)st.st_size, r->n, r->n * sizeof *r->id);
	else
		rc = file_read_all(fd, r->id, r->n * sizeof *r->id, e);
	if (!rc)
		rc = check_ascending(path, r, e);
	if (fd >= 0)
		close(fd);
	free(path);
	return rc;
}

/* Reads the ids of one sparse table that the program names in its answer, with their count as
 * decimal text. The caller sets all rows[].n to 0 before the first call. A name counts as repeated
 * only when its earlier count was above 0. ERR_FORMAT: the answer of the program is wrong. */
static enum err_code read_named_table(const struct program_files *f, const char *name,
    const char *number, struct params_rows *rows, struct err *e)
{
	uint64_t n;
	size_t i = 0;

	while (i < f->job->ntables &&
	    (!f->job->table[i].sparse || strcmp(f->job->table[i].name, name) != 0))
		i++;
	if (i == f->job->ntables)
		return err_set(e, ERR_FORMAT,
		    "the program requested rows of \"%.63s\", but the job has no sparse table of "
		    "that name",
		    name);
	if (rows[i].n)
		return err_set(e, ERR_FORMAT, "the program requested rows of \"%s\" twice", name);
	if (!num_uint(number, ROWS_MOST, &n))
		return err_set(e, ERR_FORMAT,
		    "the program sent \"rows %s %.40s\", expected a count of at most %u", name,
		    number, ROWS_MOST);
	rows[i].n = (size_t)n;
	return read_ids_file(f, i, &rows[i], e);
}

enum err_code program_rows_parse(const struct program_files *f, char *says,
    struct params_rows *rows, struct err *e)
{
	char *save, *word;

	program_rows_clear(f, rows);
	for (word = strtok_r(says, " \t\r", &save); word; word = strtok_r(NULL, " \t\r", &save)) {
		char *name = strtok_r(NULL, " \t\r", &save),
		     *number = name ? strtok_r(NULL, " \t\r", &save) : NULL;

		if (strcmp(word, "rows") != 0 || !number)
			return err_set(e, ERR_FORMAT,
			    "the program answered \"%.40s\" to a request for rows, expected \"ok "
			    "rows TABLE NUMBER ...\"",
			    word);
		if (read_named_table(f, name, number, rows, e))
			return e ? e->code : ERR_FORMAT;
	}
	return ERR_OK;
}

enum err_code program_rows_write(const struct program_files *f, const struct params_rows *rows,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < f->job->ntables; i++) {
		char *path;
		int fd;

		if (!f->job->table[i].sparse)
			continue;
		path = program_files_path(f, i, "ids");
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		rc = fd < 0 ? err_sys(e, ERR_IO, "cannot write %s", path)
		            : file_write_all(fd, rows[i].id, rows[i].n * sizeof *rows[i].id, e);
		if (fd >= 0)
			close(fd);
		free(path);
	}
	return rc;
}

char *program_rows_text(const struct program_files *f, const struct params_rows *rows)
{
	struct buf b = BUF_INIT;

	for (size_t i = 0; rows && i < f->job->ntables; i++)
		if (f->job->table[i].sparse)
			buf_printf(&b, " rows %s %zu", f->job->table[i].name, rows[i].n);
	return b.data ? (char *)b.data : mem_strdup("");
}
