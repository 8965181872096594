/* SPDX-License-Identifier: ISC */
/* The state store in the files of the run directory: coordinator.owner (owner_file.h), and the
 * files of saved_state.h. Two hosts may share the directory. owner_file.h has the rules by which
 * an owner that was overtaken changes nothing.
 *
 * A write, with the place of each crash (the unit test state_store.c is killed at all of them):
 *
 *   1. make state-PART-ID-N.json for each part that has changed, but the membership; sync it
 *   2. sync the directory, so that these names are durable
 *   3. write state.json, with the membership and the names, under a temporary name; sync it
 *   4. verify the owner
 *   5. rename state.json; sync the directory
 *   6. remove the files that state.json named before and does not name now
 *
 * Before the rename the former state.json names the former files, none of which was touched: the
 * former state. After the rename the new state.json names the new files, which are durable by 1 and
 * 2: the new state. A crash between the rename and the sync leaves one of the two. What no
 * state.json names is removed when the next coordinator cleans up.
 *
 * coordinator.beat has a number that the owner changes while others stand by, and
 * coordinator.standby-ID the place of a process that stands by, with a number that it changes. No clocks
 * of two hosts are compared: who reads such a file looks whether it changes.
 *
 * ID is the incarnation of the owner and N counts its writes, also those that fail. So no name is
 * used twice: an overtaken owner that still does 1 makes files that nobody names, and what it
 * removes in 6 was replaced by a state.json that its successor has read. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "state/owner_file.h"
#include "state/state_store.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/owner.h"
#include "msg/state.h"
#include "rundir/rundir.h"
#include "saved/saved_state.h"

#define LOG_PREFIX         "state.leases-"
#define PART_PREFIX        "state-"
#define DESCRIPTION_PREFIX "description-" /* of a state of version 1 */
/* How often state.json is read by a process that waits for a change */
#define POLL           (100 * NSEC_PER_MSEC)
#define STANDBY_PREFIX "coordinator.standby-"
/* An owner whose beat has not changed for this long is taken for dead. */
#define SILENCE (2 * NSEC_PER_SEC)
/* How often a standby writes its file, and the owner looks for such files. A file that has not been
 * written for STANDBY_LASTS is no standby's any more. */
#define STANDBY_EVERY NSEC_PER_SEC
#define STANDBY_LASTS 10 /* s */
/* No log of ours is longer. */
#define LOG_MAX (256u << 20)

struct state_files {
	struct state_store store;
	char *path;        /* of state.json */
	uint64_t revision; /* N of the last write, also of one that has failed */
	/* what state.json says about the file of each part except the membership; NULL: nothing */
	json_t *entry[STATE_PARTS];
	/* Names of files, each with a NUL, that the next write that succeeds does not name any
	 * more */
	struct buf replaced;
	/* The log that the state read last names; NULL: none */
	char *former_log;
	/* The log of this owner, whose thread alone uses fd and end once it runs */
	char *log; /* its path; NULL: none */
	int fd;
	off_t end; /* of the durable bytes */
	/* The owner's thread alone uses these: its beats, and when it has to look for standbys
	 * again. */
	uint64_t beats;
	int64_t look_at;
	bool has_standby;
	/* A standby uses these: the owner and the beat that it saw last, and when it saw them
	 * first; when it has to write its file again. */
	uint64_t seen_owner, seen_beat;
	int64_t seen_at, write_at;
};

static struct state_files *of_store(struct state_store *s)
{
	return (struct state_files *)s;
}

static bool has_run_dir(const struct state_store_config *cfg)
{
	return cfg->run_dir != NULL;
}

static struct state_store *open_files(const struct state_store_config *cfg)
{
	struct state_files *f = mem_alloc(sizeof *f);

	f->path = rundir_path(cfg->run_dir, "state.json");
	f->fd = -1;
	return &f->store;
}

/* Forgets what was read. */
static void forget_state(struct state_files *f)
{
	for (size_t i = 0; i < STATE_PARTS; i++) {
		json_decref(f->entry[i]);
		f->entry[i] = NULL;
	}
	free(f->former_log);
	f->former_log = NULL;
}

static char *standby_path(const struct state_files *f)
{
	return mem_printf("%s/" STANDBY_PREFIX "%016" PRIx64, f->store.cfg.run_dir,
	    f->store.cfg.incarnation);
}

static void remove_standby_file(const struct state_files *f)
{
	char *path = standby_path(f);

	unlink(path);
	free(path);
}

static void close_files(struct state_store *s)
{
	struct state_files *f = of_store(s);

	if (f->fd >= 0)
		close(f->fd);
	if (f->write_at)
		remove_standby_file(f);
	forget_state(f);
	buf_release(&f->replaced);
	free(f->path);
	free(f->log);
	free(f);
}

static const char *name_state_file(const struct state_store *s)
{
	return ((const struct state_files *)s)->path;
}

/* ---- the owner ---- */

static enum err_code check_owner_file(struct state_store *s, struct err *e)
{
	return owner_file_check_free(s->cfg.run_dir, e);
}

static enum err_code take_owner_file(struct state_store *s, struct err *e)
{
	return owner_file_take(s->cfg.run_dir, s->cfg.incarnation, e);
}

static enum err_code verify_owner_file(struct state_store *s, struct err *e)
{
	return owner_file_verify(s->cfg.run_dir, s->cfg.incarnation, e);
}

/* ---- beats and standbys ---- */

/* Replaces a short file in place. It is not synced: it says only that its writer lives. */
static enum err_code write_sign_of_life(const char *path, const json_t *document, struct err *e)
{
	char *text = json_text(document);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	enum err_code rc = fd < 0 ? err_sys(e, ERR_IO, "cannot create \"%s\"", path)
	                          : file_write_all(fd, text, strlen(text), e);

	if (fd >= 0)
		close(fd);
	free(text);
	return rc;
}

/* Is the file of a standby younger than STANDBY_LASTS before `now`? Both times are of the file
 * system. */
static bool is_standby_file(const struct state_files *f, const char *name, time_t now)
{
	char *path;
	struct stat st;
	bool is;

	if (strncmp(name, STANDBY_PREFIX, strlen(STANDBY_PREFIX)) != 0)
		return false;
	path = rundir_path(f->store.cfg.run_dir, name);
	is = stat(path, &st) == 0 && (!now || st.st_mtime + STANDBY_LASTS >= now);
	free(path);
	return is;
}

/* Appends the names of the files of all standbys, each with a NUL. now: 0: also of those that have
 * ended. False: the folder cannot be read, so that nothing is known. */
static bool list_standby_files(const struct state_files *f, time_t now, struct buf *names)
{
	DIR *d = opendir(f->store.cfg.run_dir);
	const struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (is_standby_file(f, entry->d_name, now))
			buf_append(names, entry->d_name, strlen(entry->d_name) + 1);
	if (d)
		closedir(d);
	return d != NULL;
}

static enum err_code write_beat(struct state_files *f, struct err *e)
{
	char *path = rundir_path(f->store.cfg.run_dir, "coordinator.beat");
	json_t *beat = beat_encode(
	    &(const struct beat){ .owner = f->store.cfg.incarnation, .number = ++f->beats });
	enum err_code rc = write_sign_of_life(path, beat, e);

	json_decref(beat);
	free(path);
	return rc;
}

/* The beats begin when a process stands by. That process waits for SILENCE, and by then the owner
 * has seen it. Without one the owner still looks now and then whether it has been overtaken: its
 * successor does not stand by any more, and a coordinator that has nothing to write would not
 * notice it. So only an owner that has read its own record may take the absence of standbys for a
 * reason to own the state without end. */
static enum err_code beat_in_file(struct state_store *s, struct err *e)
{
	struct state_files *f = of_store(s);
	int64_t now = clock_now();
	bool looks = now >= f->look_at, gone = !f->has_standby;
	enum err_code rc;

	if (looks) {
		struct buf names = BUF_INIT;

		gone = list_standby_files(f, 0, &names) && !names.len;
		f->has_standby |= names.len > 0;
		f->look_at = now + STANDBY_EVERY;
		buf_release(&names);
	}
	rc = f->has_standby || looks ? verify_owner_file(s, e) : ERR_OK;
	if (rc == ERR_FENCED)
		return rc;
	if (!rc && gone) {
		f->has_standby = false;
		atomic_store(&s->owned_until, INT64_MAX);
	}
	if (!f->has_standby)
		return ERR_OK;
	if (!rc)
		rc = write_beat(f, e);
	if (!rc)
		atomic_store(&s->owned_until, now + SILENCE);
	else if (atomic_load(&s->owned_until) == INT64_MAX)
		atomic_store(&s->owned_until, now);
	return rc;
}

static enum err_code write_standby_file(struct state_files *f, const struct state_standby *self,
    struct err *e)
{
	char *path = standby_path(f);
	struct state_standby sharing = *self;
	json_t *document;
	enum err_code rc;

	sharing.shares = true;
	document = state_standby_encode(&sharing);
	rc = write_sign_of_life(path, document, e);

	json_decref(document);
	free(path);
	return rc;
}

/* Notes which owner there is and its last beat, and the time after the files were read: on a slow
 * file system the beat may have been written just before that, and the owner counts its time from
 * there. A file that is being written, or cannot be read, counts as unchanged. *none: it is known
 * that no owner lives. */
static void look_at_owner(struct state_files *f, bool *none)
{
	char *path = rundir_path(f->store.cfg.run_dir, "coordinator.beat");
	json_t *document = json_parse_file(path, 4096, NULL);
	struct beat beat;
	uint64_t owner;
	bool died, known = owner_file_read(f->store.cfg.run_dir, &owner, &died);

	beat_decode(document, &beat);
	*none = known && (!owner || died);
	if (!f->seen_at || (known && owner && owner != f->seen_owner) ||
	    (document && beat.number != f->seen_beat)) {
		f->seen_owner = owner;
		f->seen_beat = document ? beat.number : f->seen_beat;
		f->seen_at = clock_now();
	}
	json_decref(document);
	free(path);
}

static enum err_code stand_by_in_file(struct state_store *s, const struct state_standby *self,
    bool *free, struct err *e)
{
	struct state_files *f = of_store(s);
	int64_t now = clock_now();
	enum err_code rc = ERR_OK;
	bool none;

	*free = false;
	if (now >= f->write_at) {
		rc = write_standby_file(f, self, e);
		f->write_at = now + STANDBY_EVERY;
	}
	look_at_owner(f, &none);
	*free = !rc && (none || now - f->seen_at > SILENCE);
	return rc;
}

static bool list_standbys_of_files(struct state_store *s, struct state_standbys *out)
{
	struct state_files *f = of_store(s);
	struct buf names = BUF_INIT;
	char *path = rundir_path(s->cfg.run_dir, "coordinator.beat");
	struct stat st;

	out->n = 0;
	if (f->has_standby && stat(path, &st) == 0)
		list_standby_files(f, st.st_mtime, &names);
	free(path);
	for (size_t at = 0; at < names.len && out->n < STATE_STANDBYS;
	     at += strlen((char *)names.data + at) + 1) {
		json_t *document;

		path = rundir_path(s->cfg.run_dir, (char *)names.data + at);
		document = json_parse_file(path, 4096, NULL);
		out->n += state_standby_decode(document, &out->at[out->n]);
		json_decref(document);
		free(path);
	}
	buf_release(&names);
	return true;
}

/* ---- the state ---- */

/* Every coordinator makes this file when it begins and never removes it. */
static bool coordinator_was_here(const struct state_store *s)
{
	char *path = rundir_path(s->cfg.run_dir, "metrics.jsonl");
	bool is = access(path, F_OK) == 0;

	free(path);
	return is;
}

static enum err_code read_state_files(struct state_store *s, unsigned which,
    struct state_values *out, struct err *e)
{
	struct state_files *f = of_store(s);
	struct saved_state saved;
	enum err_code rc = saved_state_read(s->cfg.run_dir, which, &saved, e);

	forget_state(f);
	if (rc == ERR_NOTFOUND) {
		*e = (struct err){ 0 };
		out->lost = coordinator_was_here(s);
		rc = ERR_OK;
	}
	for (size_t i = 0; i < STATE_PARTS; i++) {
		f->entry[i] = json_incref(saved.entry[i]);
		out->part[i] = saved.part[i];
		saved.part[i] = (struct buf)BUF_INIT;
	}
	if (saved.log)
		f->former_log = rundir_path(s->cfg.run_dir, saved.log);
	out->revision = f->revision = saved.revision;
	saved_state_release(&saved);
	return rc;
}

static enum err_code read_revision(const struct state_files *f, uint64_t *now, struct err *e)
{
	json_t *root = json_parse_file(f->path, STATE_PART_MAX, e);
	struct state_index index;
	enum err_code rc;

	*now = 0;
	if (!root && e->code == ERR_NOTFOUND) {
		*e = (struct err){ 0 };
		return ERR_OK;
	}
	rc = root ? state_index_decode(root, &index, e) : e->code;
	if (!rc)
		*now = (uint64_t)index.revision;
	json_decref(root);
	return rc;
}

/* The kernel does not report what another host does on a shared file system. */
static enum err_code poll_revision(struct state_store *s, uint64_t known, int64_t until,
    uint64_t *now, struct err *e)
{
	const struct timespec pause = { 0, POLL };
	enum err_code rc = read_revision(of_store(s), now, e);

	while (!rc && *now == known && clock_now() < until) {
		nanosleep(&pause, NULL);
		rc = read_revision(of_store(s), now, e);
	}
	return rc;
}

static enum err_code verify_before_rename(void *ctx, struct err *e)
{
	return verify_owner_file(ctx, e);
}

/* Step 1 of a write. */
static enum err_code write_part_file(struct state_files *f, const struct state_part_change *c,
    const char *name, struct err *e)
{
	char *path = rundir_path(f->store.cfg.run_dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	enum err_code rc = ERR_OK;

	if (fd < 0)
		rc = err_sys(e, ERR_IO, "cannot create \"%s\"", path);
	if (!rc && file_write_all(fd, c->text.text, c->text.size, e))
		rc = err_prefix(e, "\"%s\"", path);
	if (!rc && fsync(fd))
		rc = err_sys(e, ERR_IO, "cannot sync \"%s\"", path);
	if (fd >= 0 && close(fd) && !rc)
		rc = err_sys(e, ERR_IO, "cannot close \"%s\"", path);
	free(path);
	return rc;
}

/* Steps 1 and 2. entry: what state.json is to say of each part; *made: the names of the new
 * files. */
static enum err_code write_part_files(struct state_files *f, const struct state_part_change *change,
    size_t n, json_t *entry[static STATE_PARTS], struct buf *made, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++) {
		enum state_part part = change[i].part;
		char *name;

		if (part == STATE_PART_membership)
			continue;
		json_decref(entry[part]);
		entry[part] = NULL;
		if (!change[i].text.text)
			continue;
		name = mem_printf(PART_PREFIX "%s-%016" PRIx64 "-%" PRIu64 ".json",
		    state_part_name[part], f->store.cfg.incarnation, f->revision);
		buf_append(made, name, strlen(name) + 1);
		entry[part] = state_file_encode(&(const struct state_file){ .file = name,
		    .size = (int64_t)change[i].text.size,
		    .blake2b = change[i].text.digest,
		    .revision = (int64_t)f->revision });
		rc = write_part_file(f, &change[i], name, e);
		free(name);
	}
	if (!rc && made->len)
		rc = file_sync_dir(f->store.cfg.run_dir, e);
	return rc;
}

/* Steps 3 to 5. */
static enum err_code replace_state_file(struct state_files *f, const struct state_text *membership,
    json_t *const entry[static STATE_PARTS], struct err *e)
{
	json_t *root = json_parse(membership->text, membership->size, STATE_PART_MAX, e), *parts,
	       *index;
	enum err_code rc;
	struct file_new new;
	char *text;

	if (!root)
		return e->code;
	parts = json_object();
	for (size_t i = 0; i < STATE_PARTS; i++)
		if (entry[i])
			json_object_set(parts, state_part_name[i], entry[i]);
	index = state_index_encode(&(const struct state_index){ .revision = (int64_t)f->revision,
	    .parts = parts,
	    .lease_log = f->log ? path_basename(f->log) : NULL });
	json_object_update(root, index);
	json_decref(index);
	json_decref(parts);
	text = json_text(root);
	json_decref(root);
	rc = file_new_open(f->path, 0600, &new, e);
	if (!rc) {
		new.may_appear = verify_before_rename;
		new.ctx = f;
		rc = file_new_close(&new, file_write_all(new.fd, text, strlen(text), e), e);
	}
	free(text);
	return rc;
}

static void remove_files(const struct state_files *f, const struct buf *names)
{
	for (size_t at = 0; at < names->len; at += strlen((char *)names->data + at) + 1) {
		char *path = rundir_path(f->store.cfg.run_dir, (char *)names->data + at);

		unlink(path);
		free(path);
	}
}

/* The name of the file; NULL: none. Borrowed. */
static const char *name_of_entry(const json_t *entry)
{
	struct state_file f;

	return entry && !state_file_decode(entry, &f, NULL) ? f.file : NULL;
}

/* Goes by the new entries, and removes the files of those that they replace. */
static void take_entries(struct state_files *f, json_t *entry[static STATE_PARTS])
{
	for (size_t i = 0; i < STATE_PARTS; i++) {
		const char *name = name_of_entry(f->entry[i]);

		if (name && f->entry[i] != entry[i])
			buf_append(&f->replaced, name, strlen(name) + 1);
		json_decref(f->entry[i]);
		f->entry[i] = json_incref(entry[i]);
	}
	remove_files(f, &f->replaced);
	buf_clear(&f->replaced);
}

/* After ERR_FENCED state.json does not name the new files. After another error it may. */
static enum err_code write_state_files(struct state_store *s,
    const struct state_part_change *change, size_t n, struct err *e)
{
	struct state_files *f = of_store(s);
	const struct state_text *membership = NULL;
	json_t *entry[STATE_PARTS];
	struct buf made = BUF_INIT;
	enum err_code rc;

	f->revision++;
	for (size_t i = 0; i < STATE_PARTS; i++)
		entry[i] = json_incref(f->entry[i]);
	for (size_t i = 0; i < n; i++)
		if (change[i].part == STATE_PART_membership)
			membership = &change[i].text;
	rc = write_part_files(f, change, n, entry, &made, e);
	if (!rc)
		rc = replace_state_file(f, membership, entry, e);
	if (!rc)
		take_entries(f, entry);
	else if (rc == ERR_FENCED)
		remove_files(f, &made);
	else
		buf_append(&f->replaced, made.data, made.len);
	for (size_t i = 0; i < STATE_PARTS; i++)
		json_decref(entry[i]);
	buf_release(&made);
	return rc;
}

/* ---- the log ---- */

static enum err_code read_log_file(struct state_store *s, struct buf *out, struct err *e)
{
	struct state_files *f = of_store(s);
	enum err_code rc = f->former_log ? file_read(f->former_log, LOG_MAX, out, e) : ERR_OK;
	struct err why;

	/* Another process that became the owner after this one has read state.json has written a
	 * state of its own, and removed the log that the former state names. */
	if (rc == ERR_NOTFOUND && verify_owner_file(s, &why) == ERR_FENCED)
		rc = err_pass(e, &why);
	return rc;
}

static enum err_code begin_log_file(struct state_store *s, struct err *e)
{
	struct state_files *f = of_store(s);

	if (!f->log) {
		char *name = mem_printf(LOG_PREFIX "%016" PRIx64, s->cfg.incarnation);

		f->log = rundir_path(s->cfg.run_dir, name);
		free(name);
	}
	if (f->fd < 0)
		f->fd = open(f->log, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0)
		return err_sys(e, ERR_IO, "cannot create \"%s\"", f->log);
	return file_sync_dir(s->cfg.run_dir, e);
}

/* If truncating fails, old records stay after the new ones; their numbers are lower, so reading
 * stops there. */
static void truncate_log(struct state_files *f)
{
	f->end = 0;
	if (ftruncate(f->fd, 0))
		log_warn(f->store.cfg.log, "cannot truncate \"%s\"", f->log);
}

/* Writes at a fixed offset, so that a second try overwrites what the first one left. */
static enum err_code append_to_log(struct state_store *s, const struct buf *records, bool drop,
    struct err *e)
{
	struct state_files *f = of_store(s);
	enum err_code rc = ERR_OK;
	size_t at = 0;

	if (drop)
		truncate_log(f);
	rc = FAIL_ERROR("lease_write", e);
	while (!rc && at < records->len) {
		ssize_t n = pwrite(f->fd, records->data + at, records->len - at,
		    f->end + (off_t)at);

		if (n < 0)
			rc = err_sys(e, ERR_IO, "cannot write \"%s\"", f->log);
		else
			at += (size_t)n;
	}
	if (!rc && fdatasync(f->fd))
		rc = err_sys(e, ERR_IO, "cannot sync \"%s\"", f->log);
	if (!rc)
		rc = verify_owner_file(s, e);
	if (!rc)
		f->end += (off_t)records->len;
	return rc;
}

static bool begins_with(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* A file of the state that its last write does not name. */
static bool is_left(const struct state_files *f, const char *name)
{
	if (begins_with(name, LOG_PREFIX))
		return !f->log || strcmp(name, path_basename(f->log)) != 0;
	for (size_t i = 0; i < STATE_PARTS; i++) {
		const char *file = name_of_entry(f->entry[i]);

		if (file && strcmp(name, file) == 0)
			return false;
	}
	return begins_with(name, PART_PREFIX) || begins_with(name, DESCRIPTION_PREFIX);
}

/* Lists the files, then verifies the owner, and removes them after that. So no file in the list was
 * made by an owner after this one, which may take over at any time: such an owner makes its files
 * when it has replaced the owner's record. */
static void remove_files_of_others(struct state_store *s)
{
	const struct state_files *f = of_store(s);
	DIR *d = opendir(s->cfg.run_dir);
	const struct dirent *entry;
	struct buf names = BUF_INIT;

	while (d && (entry = readdir(d)))
		if (is_left(f, entry->d_name))
			buf_append(&names, entry->d_name, strlen(entry->d_name) + 1);
	if (d)
		closedir(d);
	if (names.len && !verify_owner_file(s, NULL))
		remove_files(f, &names);
	buf_release(&names);
}

const struct state_store_ops state_store_files = {
	.serves = has_run_dir,
	.open = open_files,
	.close = close_files,
	.where = name_state_file,
	.check_free = check_owner_file,
	.become_owner = take_owner_file,
	.verify = verify_owner_file,
	.beat = beat_in_file,
	.stand_by = stand_by_in_file,
	.list_standbys = list_standbys_of_files,
	.read = read_state_files,
	.watch = poll_revision,
	.write = write_state_files,
	.read_log = read_log_file,
	.begin_log = begin_log_file,
	.append = append_to_log,
	.clean = remove_files_of_others,
};
