/* SPDX-License-Identifier: ISC */
#include "data/store/data_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/read_retry.h"
#include "core/version.h"
#include "data/data_build.h"
#include "data/table/data_names.h"
#include "data/source/data_option.h"
#include "data/batch/data_pairs.h"
#include "data/table/data_schema.h"
#include "data/store/data_store.h"
#include "data/source/data_uri.h"
#include "format/uri.h"

#define SUFFIX ".parsed"
/* how long to wait for another process that parses the same */
#define PATIENCE    (600 * NSEC_PER_SEC)
#define TICK        (20 * NSEC_PER_MSEC) /* longest tick of a file system's clock */
#define NAME_DIGITS 16                   /* digits of each digest in a name */
/* How long a file that cannot be read is tried again: not for READ_RETRY_TIME, since the data can be
 * parsed instead. */
#define READ_PATIENCE (1 * NSEC_PER_SEC)

/* ---- what the data are made of ---- */

/* A file of the data, or one with labels beside it. */
struct source_file {
	char *path;
	size_t number;   /* of the file of data */
	bool labels;     /* it has the labels of that file */
	struct stat was; /* if it was there */
};

/* The identity of parsed data. what: all that was requested. whole: also the state of the files. */
struct identity {
	struct buf what, whole;
	char key[DIGEST_HEX]; /* digest of `whole` */
	/* name of the directory; its prefix, common to all with the same `what` */
	char *name, *begin;
	char *source; /* as data_load sets it */
	struct source_file *file;
	size_t nfiles, ndata; /* files, and those that are files of data */
};

static void release_identity(struct identity *id)
{
	for (size_t i = 0; i < id->nfiles; i++)
		free(id->file[i].path);
	free(id->file);
	buf_release(&id->what);
	buf_release(&id->whole);
	free(id->name);
	free(id->begin);
	free(id->source);
}

/* Adds a text with its length before it, so that different lists never look equal. */
static void put_identity_text(struct identity *id, const char *text)
{
	buf_printf(&id->what, "%zu:%s\n", text ? strlen(text) : 0, text ? text : "");
}

static void put_number(struct identity *id, uint64_t n)
{
	buf_printf(&id->what, "%llu\n", (unsigned long long)n);
}

/* File times have a coarse clock: two changes within a tick give the same time. Waits until a file
 * that changed just now is a tick old, so that a later change is visible. */
static int stat_settled(const char *path, struct stat *st)
{
	int r = stat(path, st);
	struct timespec now;
	int64_t age;

	clock_gettime(CLOCK_REALTIME, &now);
	age = r == 0
	    ? (now.tv_sec - st->st_ctim.tv_sec) * NSEC_PER_SEC + now.tv_nsec - st->st_ctim.tv_nsec
	    : TICK;
	if (age < 0 || age >= TICK)
		return r;
	nanosleep(&(struct timespec){ 0, (long)(TICK - age) }, NULL);
	return stat(path, st);
}

/* Adds the file's size and times, with ctime, which copying cannot preserve. False when it is not a
 * regular file, or is in /proc, where names are reused. */
static bool put_file(struct identity *id, const char *path, bool labels, bool must_be)
{
	char *whole = path_absolute(path);
	struct stat st = { 0 };
	bool good = stat_settled(path, &st) == 0 && S_ISREG(st.st_mode) &&
	    strncmp(whole, "/proc/", 6) != 0;

	put_identity_text(id, whole);
	if (good)
		buf_printf(&id->whole, "%lld %lld.%09ld %lld.%09ld\n", (long long)st.st_size,
		    (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec,
		    st.st_ctim.tv_nsec);
	else
		buf_puts(&id->whole, "none\n");
	free(whole);
	if (good) {
		id->file = mem_regrow(id->file, id->nfiles + 1, sizeof *id->file);
		id->file[id->nfiles++] = (struct source_file){ .path = mem_strdup(path),
			.number = id->ndata,
			.labels = labels,
			.was = st };
	}
	return good || !must_be;
}

/* Adds the tables of the features of users and items that the options of the file `name` name. */
static bool put_features(struct identity *id, const struct data_options *o, const char *name)
{
	const char *path[] = { o->user_features, o->item_features };
	bool good = true;

	for (size_t i = 0; good && i < sizeof path / sizeof *path; i++) {
		char *whole = path[i] ? data_option_path(name, path[i]) : NULL;

		good = !whole || put_file(id, whole, true, true);
		free(whole);
	}
	return good;
}

/* Adds a file of data, and the files of labels beside it. */
static bool put_data_file(struct identity *id, const struct data_cache_source *from,
    const char *name, const struct data_options *o)
{
	char *labels, *stem = o->labels ? NULL : data_label_stem(name);
	bool good = strcmp(name, "-") != 0 && put_file(id, name, false, true);

	for (size_t k = 0; stem && k < 3; k++) {
		labels = mem_printf("%s%s", stem, data_label_suffix[k]);
		put_file(id, labels, true, false);
		free(labels);
	}
	free(stem);
	if (good && o->labels) {
		labels = from->base_dir ? path_join(from->base_dir, o->labels)
		                        : mem_strdup(o->labels);
		good = put_file(id, labels, true, true);
		free(labels);
	}
	good = good && put_features(id, o, name);
	id->ndata++;
	return good;
}

/* Adds the files of a path. */
static bool put_files(struct identity *id, const struct data_cache_source *from, const char *file,
    const struct data_options *o)
{
	char **names = NULL;
	size_t n = 0;
	bool good = !uri_is(file) &&
	    data_uri_expand(file, from->base_dir, &names, &n, NULL) == ERR_OK;

	if (good && id->ndata == 0)
		id->source = mem_strdup(names[0]);
	for (size_t i = 0; good && i < n; i++)
		good = put_data_file(id, from, names[i], o);
	data_uri_free(names, n);
	return good;
}

/* Adds a path and its options to the identity. */
static bool put_path(struct identity *id, const struct data_cache_source *from, const char *path)
{
	struct data_options o;
	char *file;
	bool good;

	if (data_uri_parse(path, &file, &o, NULL) != ERR_OK)
		return false;
	data_uri_list(&o, &id->what);
	good = put_files(id, from, file, &o);
	data_uri_release(&o);
	free(file);
	return good;
}

/* Adds a document, and takes the reference; NULL: there is none. */
static void put_identity_document(struct identity *id, json_t *o)
{
	char *text = o ? json_text(o) : NULL;

	put_identity_text(id, text);
	free(text);
	json_decref(o);
}

static void put_double(struct identity *id, double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	put_number(id, bits);
}

/* Adds what readers take over from the training data. */
static void put_like(struct identity *id, const struct dataset *d)
{
	put_number(id, d->sparse);
	put_number(id, d->cols);
	put_number(id, d->fields);
	put_number(id, (uint64_t)(d->index_base + 1));
	put_number(id, d->classes);
	for (size_t i = 0; i < d->classes; i++) {
		put_double(id, d->class_value[i]);
		put_identity_text(id, d->class_name[i]);
	}
	put_identity_document(id, d->options ? data_option_to_json(d->options) : NULL);
	put_number(id, d->feature_name != NULL);
	for (size_t i = 0; d->feature_name && i < d->cols; i++)
		put_identity_text(id, d->feature_name[i]);
	put_identity_document(id, d->schema ? data_schema_to_json(d->schema) : NULL);
	put_identity_document(id, d->names ? data_names_to_json(d->names) : NULL);
}

/* Adds how models fit the targets, which data take over from those that they extend. */
static void put_target_scaling(struct identity *id, const struct dataset *base)
{
	put_double(id, base->target_shift);
	put_double(id, base->target_factor);
}

/* Fills *id. False: these data cannot be cached, or not even found, which data_load then
 * reports. */
static bool make_identity(struct identity *id, const struct data_cache_source *from)
{
	char what[DIGEST_HEX], *first;
	/* The cache does not have the names of examples. */
	bool good = from->npaths > 0 && !from->want->words && !from->want->names;
	const struct dataset *known = from->like ? from->like : from->want->base;

	*id = (struct identity){ 0 };
	/* Their paths are whole, and those of other tables are not looked at. */
	if (good && known && known->options)
		good = put_features(id, known->options, "-");
	buf_printf(&id->what, "pskit " PSKIT_VERSION " %d\n", DATA_STORE_VERSION);
	put_number(id, from->want->classes);
	put_number(id, from->want->two);
	put_number(id, from->want->any);
	put_number(id, (from->want->pairs > 0) | (unsigned)from->want->fields << 1);
	put_number(id, from->want->shifts_targets);
	put_number(id, from->like ? 1 : from->want->base ? 2 : 0);
	if (known)
		put_like(id, known);
	else
		put_identity_text(id, from->want->scale);
	if (!from->like && from->want->base)
		put_target_scaling(id, from->want->base);
	else
		put_number(id, !from->like && from->want->scales_targets);
	put_number(id, from->block);
	for (size_t i = 0; good && i < from->npaths; i++)
		good = put_path(id, from, from->paths[i]);
	if (!good)
		return false;
	buf_append(&id->whole, id->what.data, id->what.len);
	digest_of(id->what.data, id->what.len, what);
	digest_of(id->whole.data, id->whole.len, id->key);
	id->begin = mem_printf("%.*s-", NAME_DIGITS, what);
	id->name = mem_printf("%s%.*s" SUFFIX, id->begin, NAME_DIGITS, id->key);
	if (id->ndata > 1) {
		first = id->source;
		id->source = mem_printf("%s and %zu more", first, id->ndata - 1);
		free(first);
	}
	return true;
}

/* Are the files of data these? */
static bool files_are(const struct identity *id, const char *const *name, size_t n)
{
	for (size_t i = 0; i < id->nfiles; i++)
		if (!id->file[i].labels &&
		    (id->file[i].number >= n ||
		        strcmp(id->file[i].path, name[id->file[i].number]) != 0))
			return false;
	return id->ndata == n;
}

/* The file of data of this number, or its labels, if it has another state than that in which its
 * chunks are stored; NULL: neither has. */
static const char *find_changed_file(const struct identity *id, size_t number)
{
	for (size_t i = 0; i < id->nfiles; i++) {
		const struct stat *was = &id->file[i].was;
		struct stat now;

		if (id->file[i].number == number &&
		    (stat(id->file[i].path, &now) != 0 || now.st_size != was->st_size ||
		        now.st_mtim.tv_sec != was->st_mtim.tv_sec ||
		        now.st_mtim.tv_nsec != was->st_mtim.tv_nsec ||
		        now.st_ctim.tv_sec != was->st_ctim.tv_sec ||
		        now.st_ctim.tv_nsec != was->st_ctim.tv_nsec))
			return id->file[i].path;
	}
	return NULL;
}

/* ---- the directory of parsed data ---- */

struct data_cache_entry {
	struct log *log;
	struct identity id;
	char *dir;
	int lock;            /* -1: none */
	atomic_bool full;    /* a chunk could not be stored */
	atomic_bool changed; /* a file of the data has changed */
	atomic_bool damaged; /* a stored chunk was damaged */
	atomic_bool unread;  /* a stored chunk could not be read */
};

/* Makes a directory, but not its parents: a wrong path then gives a warning rather than a tree. */
static bool make_directory(struct log *log, const char *dir)
{
	struct stat st;
	bool usable = mkdir(dir, 0700) == 0 || errno == EEXIST;

	if (usable && stat(dir, &st) == 0 && !S_ISDIR(st.st_mode)) {
		usable = false;
		errno = ENOTDIR;
	}
	if (!usable)
		log_warn(log, "parsed data are not kept: cannot make the directory \"%s\": %s", dir,
		    strerrordesc_np(errno));
	return usable;
}

/* Removes what was stored for earlier states of the same files. */
static void remove_others(const char *dir, const struct identity *id)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	char *path;

	while (d && (entry = readdir(d)))
		if (strncmp(entry->d_name, id->begin, strlen(id->begin)) == 0 &&
		    strlen(entry->d_name) == strlen(id->name) &&
		    strcmp(entry->d_name, id->name) != 0) {
			path = path_join(dir, entry->d_name);
			file_remove_tree(path, NULL);
			free(path);
		}
	if (d)
		closedir(d);
}

/* Removes what processes that were killed have left, if nobody else uses the directory, and then
 * says that this process does. Without a lock nothing is removed. */
static void lock_directory(struct data_cache_entry *k)
{
	char *path = path_join(k->dir, "lock");

	k->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	free(path);
	if (k->lock < 0)
		return;
	if (flock(k->lock, LOCK_EX | LOCK_NB) == 0)
		file_remove_torn(k->dir, "");
	flock(k->lock, LOCK_SH);
}

struct data_cache_entry *data_cache_open(const struct data_cache *c,
    const struct data_cache_source *from)
{
	struct data_cache_entry *k;

	if (!c->dir)
		return NULL;
	k = mem_alloc(sizeof *k);
	k->log = c->log;
	k->lock = -1;
	if (make_identity(&k->id, from) &&
	    (!from->name || files_are(&k->id, from->name, from->nfiles)) &&
	    make_directory(c->log, c->dir))
		k->dir = path_join(c->dir, k->id.name);
	if (!k->dir || !make_directory(c->log, k->dir)) {
		data_cache_close(k);
		return NULL;
	}
	remove_others(c->dir, &k->id);
	lock_directory(k);
	if (from->block)
		log_info(k->log, "parsed blocks: kept in %s", k->dir);
	return k;
}

void data_cache_close(struct data_cache_entry *k)
{
	if (!k)
		return;
	if (k->lock >= 0)
		close(k->lock);
	release_identity(&k->id);
	free(k->dir);
	free(k);
}

void data_cache_remove(const char *dir)
{
	file_remove_tree(dir, NULL);
}

/* ---- chunks ---- */

static char *chunk_path(const struct data_cache_entry *k, uint32_t block, uint32_t chunk)
{
	return mem_printf("%s/%08" PRIu32 "-%" PRIu32, k->dir, block, chunk);
}

/* Maps a chunk. A file that cannot be read is tried again for a moment, until one has failed for so
 * long. Errors as data_store_map. */
static enum err_code map_chunk(struct data_cache_entry *k, const char *path, struct dataset **out,
    bool *more, struct err *e)
{
	int64_t end = clock_now() + (atomic_load(&k->unread) ? 0 : READ_PATIENCE);
	enum err_code rc = data_store_map(path, k->id.key, out, more, e);

	while (rc == ERR_IO && clock_now() < end) {
		clock_sleep(READ_RETRY_PAUSE_MS);
		rc = data_store_map(path, k->id.key, out, more, e);
	}
	return rc;
}

/* Logs why a chunk that is stored is not used, the first time. */
static void report_unusable(struct data_cache_entry *k, const char *path, const struct err *why)
{
	if (why->code == ERR_IO && !atomic_exchange(&k->unread, true))
		log_warn(k->log, "%s cannot be read, and its data are parsed instead: %s", path,
		    why->msg);
	else if (why->code != ERR_IO && !atomic_exchange(&k->damaged, true))
		log_warn(k->log, "%s is unusable and is rebuilt: %s", path, why->msg);
}

/* Without fsync: a file that a crash damages is found by its checksum. A file that could not be
 * read stays, since it may be whole. */
static enum err_code write_chunk(const struct data_cache_entry *k, const char *path,
    const struct dataset *d, bool more, struct err *e)
{
	struct file_new f;
	enum err_code rc;

	if (atomic_load(&k->unread) && access(path, F_OK) == 0)
		return ERR_OK;
	rc = file_new_open(path, 0600, &f, e);
	if (rc)
		return rc;
	f.no_sync = true;
	return file_new_close(&f, data_store_write(d, more, k->id.key, f.fd, e), e);
}

bool data_cache_load(struct data_cache_entry *k, uint32_t block, uint32_t chunk,
    struct dataset **out, bool *last)
{
	char *path = chunk_path(k, block, chunk);
	bool more = false;
	struct err why = { 0 };
	enum err_code rc = map_chunk(k, path, out, &more, &why);

	if (rc && rc != ERR_NOTFOUND)
		report_unusable(k, path, &why);
	free(path);
	*last = !rc && !more;
	return !rc;
}

void data_cache_store(struct data_cache_entry *k, size_t file, uint32_t block, uint32_t chunk,
    const struct dataset *d, bool last)
{
	const char *changed;
	char *path;
	struct err e;

	if (atomic_load(&k->full) || atomic_load(&k->changed) ||
	    (d && (d->reading.skipped || !data_store_can(d))))
		return;
	changed = find_changed_file(&k->id, file);
	if (changed && !atomic_exchange(&k->changed, true))
		log_warn(k->log, "parsed blocks are no longer kept: %s has changed", changed);
	if (changed)
		return;
	path = chunk_path(k, block, chunk);
	if (write_chunk(k, path, d, !last, &e) && !atomic_exchange(&k->full, true))
		log_warn(k->log,
		    "parsed blocks are no longer kept: %s; training continues without them", e.msg);
	free(path);
}

/* ---- data that are loaded as a whole ---- */

/* Waits until a process closes the file, a second at most: processes on other hosts send no
 * event. */
static void await_close(int watch)
{
	struct pollfd p = { watch, POLLIN, 0 };
	char events[4096];

	if (poll(&p, 1, 1000) > 0)
		while (read(watch, events, sizeof(events)) > 0)
			;
}

/* Locks the data for parsing, or waits until another process has stored them. Returns the descriptor, or
 * -1 when there is no lock: the data are stored, or are parsed twice. *waited: another process had the
 * lock before. */
static int lock_parse(const struct data_cache *c, const char *path, const char *stored,
    bool *waited)
{
	int64_t end = clock_now() + PATIENCE;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), watch;

	*waited = false;
	if (fd < 0)
		return -1;
	watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	inotify_add_watch(watch, path, IN_CLOSE);
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK || clock_now() > end) {
			log_warn(c->log,
			    "cannot lock \"%s\": reading the data without waiting for other "
			    "processes",
			    path);
			close(fd);
			fd = -1;
			break;
		}
		if (!*waited)
			log_info(c->log,
			    "waiting for another process that reads the same data (%s)", path);
		*waited = true;
		await_close(watch);
		/* All waiting processes wake at once, and need no lock to read the data. */
		if (access(stored, F_OK) == 0) {
			close(fd);
			fd = -1;
			break;
		}
	}
	if (watch >= 0)
		close(watch);
	return fd;
}

/* Parses the data and stores them at path, unless the files have changed in the meantime. */
static enum err_code parse_and_store(const struct data_cache_entry *k,
    const struct data_cache_source *from, const char *path, struct dataset **out, struct err *e)
{
	struct identity now;
	struct err why;
	enum err_code rc = data_load(from->paths, from->npaths, from->base_dir, from->want,
	    from->like, out, e);

	if (rc || (*out)->reading.skipped || !data_store_can(*out))
		return rc;
	if (!make_identity(&now, from) || strcmp(now.key, k->id.key) != 0)
		log_warn(k->log,
		    "parsed data are not kept: the files changed while they were read");
	else if (write_chunk(k, path, *out, false, &why))
		log_warn(k->log, "parsed data are not kept: %s", why.msg);
	else
		log_info(k->log, "parsed data: kept as %s", path);
	release_identity(&now);
	return ERR_OK;
}

/* Loads the data that are stored at path. ERR_FORMAT also where a chunk has no examples. */
static enum err_code load_stored(struct data_cache_entry *k, const char *path, struct dataset **out,
    struct err *e)
{
	bool more;
	enum err_code rc = map_chunk(k, path, out, &more, e);

	if (!rc && !*out)
		rc = err_set(e, ERR_FORMAT, "it has no examples");
	if (rc)
		return rc;
	(*out)->source = k->id.source;
	k->id.source = NULL;
	log_info(k->log, "parsed data: read from %s", path);
	return ERR_OK;
}

/* Loads the data from the cache; if they are not there, takes the lock, looks once more, because
 * another process may have stored them, and parses. */
static enum err_code load_or_parse(const struct data_cache *c, struct data_cache_entry *k,
    const struct data_cache_source *from, struct dataset **out, struct err *e)
{
	char *path = chunk_path(k, 0, 0),
	     *lock = mem_printf("%s/%.*s.lock", c->dir, NAME_DIGITS, k->id.begin);
	struct err why = { 0 };
	enum err_code rc = load_stored(k, path, out, &why);
	bool waited;
	int fd = -1;

	if (rc && rc != ERR_IO) {
		fd = lock_parse(c, lock, path, &waited);
		if (fd >= 0 || waited)
			rc = load_stored(k, path, out, &why);
		/* If the process before could not store the data, this one will hardly do so: the others
		 * need not wait for it. */
		if (fd >= 0 && rc == ERR_NOTFOUND && waited) {
			close(fd);
			fd = -1;
		}
	}
	if (rc && rc != ERR_NOTFOUND)
		report_unusable(k, path, &why);
	if (rc)
		rc = parse_and_store(k, from, path, out, e);
	if (fd >= 0)
		close(fd);
	free(path);
	free(lock);
	return rc;
}

/* Failure to use the cache is never an error of loading; the data are parsed instead. */
enum err_code data_load_cached(const struct data_cache *c, const char *const *paths, size_t npaths,
    const char *base_dir, const struct data_want *want, const struct dataset *like,
    struct dataset **out, struct err *e)
{
	const struct data_cache_source from = { .paths = paths,
		.npaths = npaths,
		.base_dir = base_dir,
		.want = want,
		.like = like };
	struct data_cache_entry *k = data_cache_open(c, &from);
	enum err_code rc;

	*out = NULL;
	rc = k ? load_or_parse(c, k, &from, out, e)
	       : data_load(paths, npaths, base_dir, want, like, out, e);
	data_cache_close(k);
	if (!rc && want->pairs)
		rc = data_pairs_make(out, like, want->pairs, e);
	if (rc) {
		dataset_free(*out);
		*out = NULL;
	}
	return rc;
}
