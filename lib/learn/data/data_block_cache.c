/* SPDX-License-Identifier: ISC */
#include "data/data_block_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "data/data_store.h"

#define SUFFIX ".blocks"
#define MORE   "more"
#define LAST   "last"
#define NONE   "none"

struct stored_file {
	char *name;
	struct stat was; /* when the directory was opened */
};

struct data_block_cache {
	struct log *log;
	char *dir, key[DIGEST_HEX];
	int lock;
	struct stored_file *file;
	size_t nfiles;
	bool full;    /* a piece could not be stored */
	bool changed; /* a file has changed */
	bool damaged; /* a stored piece was damaged */
};

void data_block_cache_close(struct data_block_cache *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->nfiles; i++)
		free(b->file[i].name);
	free(b->file);
	free(b->dir);
	if (b->lock >= 0)
		close(b->lock);
	free(b);
}

/* Removes what processes that were killed have left, if nobody else uses the directory, and then
 * says that this process does. Without a lock nothing is removed. */
static void lock_cache_directory(struct data_block_cache *b)
{
	char *path = path_join(b->dir, "lock");

	b->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	free(path);
	if (b->lock < 0)
		return;
	if (flock(b->lock, LOCK_EX | LOCK_NB) == 0)
		file_remove_torn(b->dir, "");
	flock(b->lock, LOCK_SH);
}

struct data_block_cache *data_block_cache_open(const struct data_cache *c,
    const struct data_block_cache_spec *spec)
{
	struct data_block_cache *b = mem_alloc(sizeof *b);
	char *kind = mem_printf("blocks %" PRIu64, spec->block);
	const struct data_cache_load load = { spec->paths, spec->npaths, spec->base_dir, spec->want,
		spec->head, kind };

	b->log = c->log;
	b->lock = -1;
	b->dir = data_cache_directory(c, &load, SUFFIX, b->key);
	free(kind);
	if (!b->dir) {
		data_block_cache_close(b);
		return NULL;
	}
	lock_cache_directory(b);
	b->file = mem_array(spec->nfiles + 1, sizeof *b->file);
	b->nfiles = spec->nfiles;
	for (size_t i = 0; i < spec->nfiles; i++) {
		b->file[i].name = mem_strdup(spec->name[i]);
		if (stat(spec->name[i], &b->file[i].was) != 0)
			b->changed = true;
	}
	log_info(b->log, "parsed blocks: kept in %s", b->dir);
	return b;
}

static char *piece_path(const struct data_block_cache *b, uint32_t block, uint32_t piece,
    const char *suffix)
{
	return mem_printf("%s/%08" PRIu32 "-%" PRIu32 ".%s", b->dir, block, piece, suffix);
}

/* Maps a piece of this suffix. ERR_NOTFOUND; other errors are logged the first time. */
static enum err_code map_piece(struct data_block_cache *b, uint32_t block, uint32_t piece,
    const char *suffix, struct dataset **out)
{
	char *path = piece_path(b, block, piece, suffix);
	struct err why;
	enum err_code rc = data_store_map(path, b->key, out, &why);

	if (rc && rc != ERR_NOTFOUND && !b->damaged) {
		log_warn(b->log, "%s is unusable and is rebuilt: %s", path, why.msg);
		b->damaged = true;
	}
	free(path);
	return rc;
}

bool data_block_cache_load(struct data_block_cache *b, uint32_t block, uint32_t piece,
    struct dataset **out, bool *last)
{
	char *none;
	bool ended;

	*last = true;
	if (map_piece(b, block, piece, LAST, out) == ERR_OK)
		return true;
	*last = false;
	if (map_piece(b, block, piece, MORE, out) == ERR_OK)
		return true;
	none = piece_path(b, block, piece, NONE);
	ended = access(none, F_OK) == 0;
	free(none);
	*last = ended;
	return ended;
}

static bool has_changed(const struct stored_file *f)
{
	struct stat now;

	return stat(f->name, &now) != 0 || now.st_size != f->was.st_size ||
	    now.st_mtim.tv_sec != f->was.st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != f->was.st_mtim.tv_nsec ||
	    now.st_ctim.tv_sec != f->was.st_ctim.tv_sec ||
	    now.st_ctim.tv_nsec != f->was.st_ctim.tv_nsec;
}

/* Without fsync: a file that a crash damages is found by its checksum. */
static enum err_code write_piece(struct data_block_cache *b, const char *path,
    const struct dataset *d, struct err *e)
{
	struct file_new f;
	enum err_code rc = file_new_open(path, 0600, &f, e);

	if (rc)
		return rc;
	f.no_sync = true;
	return file_new_close(&f, d ? data_store_write(d, b->key, f.fd, e) : ERR_OK, e);
}

void data_block_cache_store(struct data_block_cache *b, size_t file, uint32_t block, uint32_t piece,
    const struct dataset *d, bool last)
{
	char *path;
	struct err e;

	if (b->full || b->changed || (d && d->skipped))
		return;
	if (has_changed(&b->file[file])) {
		log_warn(b->log, "parsed blocks are no longer kept: %s has changed",
		    b->file[file].name);
		b->changed = true;
		return;
	}
	path = piece_path(b, block, piece, !d ? NONE : last ? LAST : MORE);
	if (write_piece(b, path, d, &e)) {
		log_warn(b->log,
		    "parsed blocks are no longer kept: %s; training continues without them", e.msg);
		b->full = true;
	}
	free(path);
}
