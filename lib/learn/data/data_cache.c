/* SPDX-License-Identifier: ISC */
#include "data/data_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "core/version.h"
#include "data/data_build.h"
#include "data/data_names.h"
#include "data/data_option.h"
#include "data/data_pairs.h"
#include "data/data_schema.h"
#include "data/data_store.h"
#include "data/data_uri.h"
#include "format/uri.h"

#define SUFFIX ".parsed"
/* how long to wait for another process that parses the same */
#define PATIENCE    (600 * NSEC_PER_SEC)
#define TICK        (20 * NSEC_PER_MSEC) /* longest tick of a file system's clock */
#define NAME_DIGITS 16                   /* digits of each digest in a file's name */

/* ---- what the data are made of ---- */

/* The identity of parsed data. what: all that was requested. whole: also the state of the files. */
struct identity {
	struct buf what, whole;
	char key[DIGEST_HEX]; /* digest of `whole` */
	/* name of the cache file; its prefix, common to all with the same `what` */
	char *name, *begin;
	char *source; /* as data_load sets it */
	size_t files;
};

static void release_identity(struct identity *id)
{
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
static bool put_file(struct identity *id, const char *path, bool must_be)
{
	char *whole = path_absolute(path);
	struct stat st;
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
	return good || !must_be;
}

/* Adds the files of a path, with label files beside them, to the identity. */
static bool put_files(struct identity *id, const struct data_cache_load *l, const char *file,
    const struct data_options *o)
{
	char **names = NULL, *labels, *stem;
	size_t n = 0;
	bool good = !uri_is(file) && data_uri_expand(file, l->base_dir, &names, &n, NULL) == ERR_OK;

	for (size_t i = 0; good && i < n; i++) {
		good = strcmp(names[i], "-") != 0 && put_file(id, names[i], true);
		stem = o->labels ? NULL : data_label_stem(names[i]);
		for (size_t k = 0; stem && k < 3; k++) {
			labels = mem_printf("%s%s", stem, data_label_suffix[k]);
			put_file(id, labels, false);
			free(labels);
		}
		free(stem);
	}
	if (good && o->labels) {
		labels = l->base_dir ? path_join(l->base_dir, o->labels) : mem_strdup(o->labels);
		good = put_file(id, labels, true);
		free(labels);
	}
	if (good && id->files == 0)
		id->source = mem_strdup(names[0]);
	id->files += n;
	data_uri_free(names, n);
	return good;
}

/* Adds a path and its options to the identity. */
static bool put_path(struct identity *id, const struct data_cache_load *l, const char *path)
{
	struct data_options o;
	char *file;
	bool good;

	if (data_uri_parse(path, &file, &o, NULL) != ERR_OK)
		return false;
	data_uri_list(&o, &id->what);
	good = put_files(id, l, file, &o);
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
static bool make_identity(struct identity *id, const struct data_cache_load *l)
{
	char what[DIGEST_HEX], *first;
	bool good = l->npaths > 0 && !l->want->words;

	*id = (struct identity){ 0 };
	buf_printf(&id->what, "pskit " PSKIT_VERSION " %d\n", DATA_STORE_VERSION);
	put_number(id, l->want->classes);
	put_number(id, l->want->two);
	put_number(id, l->want->any);
	put_number(id, l->want->pairs | (unsigned)l->want->fields << 1);
	put_number(id, l->want->shifts_targets);
	put_number(id, l->like ? 1 : l->want->base ? 2 : 0);
	if (l->like || l->want->base)
		put_like(id, l->like ? l->like : l->want->base);
	else
		put_identity_text(id, l->want->scale);
	if (!l->like && l->want->base)
		put_target_scaling(id, l->want->base);
	else
		put_number(id, !l->like && l->want->scales_targets);
	if (l->kind)
		put_identity_text(id, l->kind);
	for (size_t i = 0; good && i < l->npaths; i++)
		good = put_path(id, l, l->paths[i]);
	if (!good)
		return false;
	buf_append(&id->whole, id->what.data, id->what.len);
	digest_of(id->what.data, id->what.len, what);
	digest_of(id->whole.data, id->whole.len, id->key);
	id->begin = mem_printf("%.*s-", NAME_DIGITS, what);
	id->name = mem_printf("%s%.*s" SUFFIX, id->begin, NAME_DIGITS, id->key);
	if (id->files > 1) {
		first = id->source;
		id->source = mem_printf("%s and %zu more", first, id->files - 1);
		free(first);
	}
	return true;
}

/* ---- one at a time ---- */

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

/* ---- keeping ---- */

/* Removes what was stored for earlier states of the same files. */
static void remove_others(const char *dir, const struct identity *id)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	size_t n = strlen(id->name);

	while (d && (entry = readdir(d)))
		if (strncmp(entry->d_name, id->begin, strlen(id->begin)) == 0 &&
		    strlen(entry->d_name) == n &&
		    strcmp(entry->d_name + n - strlen(SUFFIX), SUFFIX) == 0 &&
		    strcmp(entry->d_name, id->name) != 0)
			unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
}

/* Stores the data, without fsync: a file that a crash damages is found by its checksum. */
static void store_parsed(const struct data_cache *c, const struct identity *id, const char *path,
    const struct dataset *d)
{
	struct file_new f;
	struct err e;
	enum err_code rc;

	file_remove_torn(c->dir, id->begin);
	rc = file_new_open(path, 0600, &f, &e);
	if (!rc) {
		f.no_sync = true;
		rc = file_new_close(&f, data_store_write(d, id->key, f.fd, &e), &e);
	}
	if (rc) {
		log_warn(c->log, "parsed data are not kept: %s", e.msg);
		return;
	}
	remove_others(c->dir, id);
	log_info(c->log, "parsed data: kept as %s", path);
}

/* Parses and stores the data, unless the files have changed in the meantime. */
static enum err_code parse_and_store(const struct data_cache *c, const struct data_cache_load *l,
    const struct identity *id, const char *path, struct dataset **out, struct err *e)
{
	struct identity now;
	enum err_code rc = data_load(l->paths, l->npaths, l->base_dir, l->want, l->like, out, e);

	if (rc)
		return rc;
	/* The next one must skip these lines and count them, too. */
	if ((*out)->skipped)
		return ERR_OK;
	if (make_identity(&now, l) && strcmp(now.key, id->key) == 0)
		store_parsed(c, id, path, *out);
	else
		log_warn(c->log,
		    "parsed data are not kept: the files changed while they were read");
	release_identity(&now);
	return ERR_OK;
}

static enum err_code load_stored(const struct data_cache *c, struct identity *id, const char *path,
    struct dataset **out, struct err *e)
{
	enum err_code rc = data_store_map(path, id->key, out, e);

	if (rc)
		return rc;
	(*out)->source = id->source;
	id->source = NULL;
	log_info(c->log, "parsed data: read from %s", path);
	return ERR_OK;
}

/* Loads the data from the cache; if they are not there, takes the lock, looks once more, because
 * another process may have stored them, and parses. */
static enum err_code load_or_parse(const struct data_cache *c, const struct data_cache_load *l,
    struct identity *id, struct dataset **out, struct err *e)
{
	char *path = path_join(c->dir, id->name),
	     *lock = mem_printf("%s/%.*s.lock", c->dir, NAME_DIGITS, id->begin);
	struct err why = { 0 };
	enum err_code rc = load_stored(c, id, path, out, &why);
	bool waited;
	int fd = -1;

	if (rc) {
		fd = lock_parse(c, lock, path, &waited);
		if (fd >= 0 || waited)
			rc = load_stored(c, id, path, out, &why);
		/* If the process before could not store the data, this one will hardly do so: the others
		 * need not wait for it. */
		if (fd >= 0 && rc == ERR_NOTFOUND && waited) {
			close(fd);
			fd = -1;
		}
		if (rc && rc != ERR_NOTFOUND)
			log_warn(c->log, "%s is unusable and is rebuilt: %s", path, why.msg);
		if (rc)
			rc = parse_and_store(c, l, id, path, out, e);
	}
	if (fd >= 0)
		close(fd);
	free(path);
	free(lock);
	return rc;
}

/* Makes the cache's directory, but not its parents: a wrong path then gives a warning rather than a tree. */
static bool make_directory(const struct data_cache *c, const char *dir)
{
	struct stat st;
	bool usable = mkdir(dir, 0700) == 0 || errno == EEXIST;

	if (usable && stat(dir, &st) == 0 && !S_ISDIR(st.st_mode)) {
		usable = false;
		errno = ENOTDIR;
	}
	if (!usable)
		log_warn(c->log, "parsed data are not kept: cannot make the directory \"%s\": %s",
		    dir, strerrordesc_np(errno));
	return usable;
}

/* Removes a directory of files. */
static void remove_directory(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;

	if (!d && fd >= 0)
		close(fd);
	while (d && (entry = readdir(d)))
		unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
	unlinkat(at, name, AT_REMOVEDIR);
}

void data_cache_remove(const char *dir)
{
	remove_directory(AT_FDCWD, dir);
}

/* Removes the directories that were made for earlier states of the same files. */
static void remove_other_directories(const char *dir, const struct identity *id, const char *name)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (strncmp(entry->d_name, id->begin, strlen(id->begin)) == 0 &&
		    strlen(entry->d_name) == strlen(name) && strcmp(entry->d_name, name) != 0)
			remove_directory(dirfd(d), entry->d_name);
	if (d)
		closedir(d);
}

char *data_cache_directory(const struct data_cache *c, const struct data_cache_load *l,
    const char *suffix, char key[static DIGEST_HEX])
{
	struct identity id = { 0 };
	char *name, *path = NULL;

	if (c->dir && make_identity(&id, l) && make_directory(c, c->dir)) {
		name = mem_printf("%s%.*s%s", id.begin, NAME_DIGITS, id.key, suffix);
		path = path_join(c->dir, name);
		memcpy(key, id.key, DIGEST_HEX);
		if (make_directory(c, path)) {
			remove_other_directories(c->dir, &id, name);
		} else {
			free(path);
			path = NULL;
		}
		free(name);
	}
	release_identity(&id);
	return path;
}

/* Failure to use the cache is never an error of loading; the data are parsed instead. */
enum err_code data_load_cached(const struct data_cache *c, const char *const *paths, size_t npaths,
    const char *base_dir, const struct data_want *want, const struct dataset *like,
    struct dataset **out, struct err *e)
{
	const struct data_cache_load l = { paths, npaths, base_dir, want, like, NULL };
	struct identity id = { 0 };
	enum err_code rc;
	bool usable;

	*out = NULL;
	/* The cache does not have the names of examples. */
	usable = c->dir && !want->names && make_identity(&id, &l) && make_directory(c, c->dir);
	rc = usable ? load_or_parse(c, &l, &id, out, e)
	            : data_load(paths, npaths, base_dir, want, like, out, e);
	release_identity(&id);
	if (!rc && want->pairs)
		rc = data_pairs_make(out, like, e);
	if (rc) {
		dataset_free(*out);
		*out = NULL;
	}
	return rc;
}
