/* SPDX-License-Identifier: ISC */
#include "tests/sim/sim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/sim/calls.h"

/* One file system in memory, which all processes see. Of each file it also keeps what was synced
 * last, and of each directory which names were, for crashes of the machine. */

enum node_kind { NODE_FILE, NODE_DIR, NODE_SOCKET };

struct bytes {
	char *data;
	size_t len, cap;
};

struct entry {
	char *name;
	struct node *node;
};

struct names {
	struct entry *at;
	size_t n, cap;
};

struct node {
	enum node_kind kind;
	mode_t mode;
	unsigned refs, links;
	ino_t ino;
	int64_t mtime;
	struct bytes now, synced;
	size_t same; /* bytes at the start in which they do not differ */
	struct names names, names_synced;
	struct node *parent;
	struct vfile *listener; /* of a socket; borrowed, NULL when it is gone */
	struct open_file *lock_exclusive;
	unsigned lock_shared;
	struct waitq unlocked;
};

struct open_file {
	struct vfile v;
	struct node *node;
	char *path;
	int flags;
	off_t at;
	bool shares_lock, out; /* out: standard output and error */
};

static struct node *root;
static ino_t next_ino;

static void *must(void *p)
{
	if (!p)
		sim_panic("no memory for the disk");
	return p;
}

/* ---- nodes ---- */

static struct node *make_node(enum node_kind kind, mode_t mode)
{
	struct node *n = must(calloc(1, sizeof *n));

	n->kind = kind;
	n->mode = mode;
	n->refs = 1;
	n->ino = next_ino++;
	n->mtime = sim_now;
	return n;
}

static void free_names(struct names *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->at[i].name);
	free(x->at);
	*x = (struct names){ 0 };
}

static void unref_node(struct node *n)
{
	if (--n->refs)
		return;
	for (size_t i = 0; i < n->names.n; i++)
		unref_node(n->names.at[i].node);
	for (size_t i = 0; i < n->names_synced.n; i++)
		unref_node(n->names_synced.at[i].node);
	free_names(&n->names);
	free_names(&n->names_synced);
	free(n->now.data);
	free(n->synced.data);
	free(n);
}

static struct entry *find_entry(struct names *x, const char *name)
{
	for (size_t i = 0; i < x->n; i++)
		if (strcmp(x->at[i].name, name) == 0)
			return &x->at[i];
	return NULL;
}

static void add_entry(struct names *x, const char *name, struct node *node)
{
	if (x->n == x->cap) {
		x->cap = x->cap ? 2 * x->cap : 8;
		x->at = must(realloc(x->at, x->cap * sizeof *x->at));
	}
	x->at[x->n++] = (struct entry){ must(strdup(name)), node };
	node->refs++;
}

static void drop_entry(struct names *x, struct entry *e)
{
	struct node *node = e->node;

	free(e->name);
	*e = x->at[--x->n];
	unref_node(node);
}

/* Find the node of a path, and its directory and last name. -1 with errno: the directory is not
 * there. */
struct place {
	struct node *dir, *node;
	char name[256];
};

static int walk(struct node *from, const char *path, struct place *out)
{
	struct node *at = path[0] == '/' ? root : from;

	out->dir = at;
	out->node = at;
	snprintf(out->name, sizeof out->name, ".");
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 0 || (n == 1 && *path == '.')) {
			path += n + (path[n] == '/');
			continue;
		}
		if (n >= sizeof out->name)
			return errno = ENAMETOOLONG, -1;
		if (!out->node)
			return errno = ENOENT, -1;
		if (out->node->kind != NODE_DIR)
			return errno = ENOTDIR, -1;
		out->dir = out->node;
		memcpy(out->name, path, n);
		out->name[n] = 0;
		if (strcmp(out->name, "..") == 0) {
			out->node = out->dir->parent ? out->dir->parent : root;
		} else {
			struct entry *e = find_entry(&out->dir->names, out->name);

			out->node = e ? e->node : NULL;
		}
		path += n + (path[n] == '/');
	}
	return 0;
}

static struct node *node_of(const char *path)
{
	struct place p;

	if (walk(root, path, &p))
		return NULL;
	if (!p.node)
		errno = ENOENT;
	return p.node;
}

static void reserve(struct bytes *b, size_t n)
{
	if (n <= b->cap)
		return;
	b->cap = b->cap * 2 > n ? b->cap * 2 : n;
	b->data = must(realloc(b->data, b->cap));
}

static bool disk_fails(bool writes)
{
	if (proc_current && proc_current->disk_broken)
		return errno = EIO, true;
	if (writes && proc_current && proc_current->disk_full)
		return errno = ENOSPC, true;
	return false;
}

/* ---- hosts that do not reach the disk ---- */

static bool away[SLOTS_MAX];
static struct waitq back;

void disk_cut(unsigned slot, bool cut)
{
	away[slot] = cut;
	if (!cut)
		waitq_wake_all(&back);
}

/* A call waits before it is done, or after that for its answer. */
static void reach_disk(void)
{
	while (fiber_current && proc_current && away[proc_current->slot])
		fiber_wait_one(&back, INT64_MAX);
}

static const char *watched;
static void (*watcher)(enum disk_event event, const char *name);

void disk_watch(const char *path, void (*fn)(enum disk_event event, const char *name))
{
	watched = path;
	watcher = fn;
}

static void tell_watcher(const struct node *dir, enum disk_event event, const char *name)
{
	if (watcher && dir == node_of(watched))
		watcher(event, name);
}

/* ---- open files ---- */

static unsigned short_writes, zeros; /* percent */

void disk_writes_short(unsigned percent)
{
	short_writes = percent;
}

void disk_leaves_zeros(unsigned percent)
{
	zeros = percent;
}

static ssize_t write_at(struct node *n, const void *p, size_t len, off_t at)
{
	/* A write within the file replaces bytes in their place and needs no room. */
	bool grows = (size_t)at + len > n->now.len;

	/* The last write before the disk is full may be short. */
	if (grows && len > 1 && proc_current && proc_current->disk_full && sim_chance(30))
		len = 1 + sim_below((uint32_t)len - 1);
	else if (disk_fails(grows))
		return -1;
	else if (len > 1 && short_writes && sim_chance(short_writes))
		len = 1 + sim_below((uint32_t)len - 1);
	reserve(&n->now, (size_t)at + len);
	if (n->now.len < n->same)
		n->same = n->now.len;
	if ((size_t)at < n->same)
		n->same = (size_t)at;
	if ((size_t)at > n->now.len)
		memset(n->now.data + n->now.len, 0, (size_t)at - n->now.len);
	if (len)
		memcpy(n->now.data + at, p, len);
	if ((size_t)at + len > n->now.len)
		n->now.len = (size_t)at + len;
	n->mtime = sim_now;
	return (ssize_t)len;
}

static ssize_t read_at(struct node *n, void *p, size_t len, off_t at)
{
	if (n->kind == NODE_DIR)
		return errno = EISDIR, -1;
	if (disk_fails(false))
		return -1;
	if ((size_t)at >= n->now.len)
		return 0;
	if (len > n->now.len - (size_t)at)
		len = n->now.len - (size_t)at;
	memcpy(p, n->now.data + at, len);
	return (ssize_t)len;
}

static ssize_t read_file(struct vfile *v, void *p, size_t n)
{
	struct open_file *f = (struct open_file *)v;
	ssize_t got = f->out ? 0 : read_at(f->node, p, n, f->at);

	if (got > 0)
		f->at += got;
	return got;
}

static ssize_t write_file(struct vfile *v, const void *p, size_t n)
{
	struct open_file *f = (struct open_file *)v;
	ssize_t put;

	if (f->out) {
		size_t len = n && ((const char *)p)[n - 1] == '\n' ? n - 1 : n;

		sim_trace("%-10s | %.*s", proc_current->name, (int)len, (const char *)p);
		snprintf(proc_current->last, sizeof proc_current->last, "%.*s", (int)len,
		    (const char *)p);
		return (ssize_t)n;
	}
	if ((f->flags & O_ACCMODE) == O_RDONLY)
		return errno = EBADF, -1;
	if (f->flags & O_APPEND)
		f->at = (off_t)f->node->now.len;
	put = write_at(f->node, p, n, f->at);
	if (put > 0)
		f->at += put;
	return put;
}

static unsigned file_ready(struct vfile *v)
{
	(void)v;
	return POLLIN | POLLOUT;
}

static void unlock_node(struct open_file *f)
{
	struct node *n = f->node;

	if (n->lock_exclusive == f)
		n->lock_exclusive = NULL;
	if (f->shares_lock)
		n->lock_shared--;
	f->shares_lock = false;
	waitq_wake_all(&n->unlocked);
}

static void close_file(struct vfile *v)
{
	struct open_file *f = (struct open_file *)v;

	if (f->node) {
		unlock_node(f);
		unref_node(f->node);
	}
	free(f->path);
	free(f);
}

static const struct vfile_ops file_ops = { "file", read_file, write_file, file_ready, close_file };

static struct open_file *open_node(struct node *n, const char *path, int flags)
{
	struct open_file *f = must(calloc(1, sizeof *f));

	vfile_init(&f->v, &file_ops, false);
	f->node = n;
	if (n)
		n->refs++;
	f->path = must(strdup(path));
	f->flags = flags;
	return f;
}

/* Standard output and error of a process: lines of the trace. */
struct vfile *disk_output(void)
{
	struct open_file *f = open_node(NULL, "/dev/stderr", O_WRONLY);

	f->out = true;
	return &f->v;
}

static struct open_file *file_of(int fd)
{
	struct vfile *v = proc_vfile(fd);

	if (v && v->ops != &file_ops) {
		errno = EINVAL;
		return NULL;
	}
	return (struct open_file *)v;
}

static int open_at(struct node *from, const char *path, int flags, mode_t mode)
{
	struct place p;
	struct open_file *f;

	if (strcmp(path, "/dev/null") == 0)
		return proc_install(proc_current, disk_output());
	if (walk(from, path, &p))
		return -1;
	if (!p.node) {
		if (!(flags & O_CREAT))
			return errno = ENOENT, -1;
		if (disk_fails(true))
			return -1;
		p.node = make_node(NODE_FILE, mode);
		p.node->links = 1;
		add_entry(&p.dir->names, p.name, p.node);
		unref_node(p.node);
	} else if (flags & O_CREAT && flags & O_EXCL) {
		return errno = EEXIST, -1;
	}
	if (flags & O_DIRECTORY && p.node->kind != NODE_DIR)
		return errno = ENOTDIR, -1;
	if (p.node->kind == NODE_DIR && (flags & O_ACCMODE) != O_RDONLY)
		return errno = EISDIR, -1;
	if (p.node->kind == NODE_SOCKET)
		return errno = ENXIO, -1;
	if (flags & O_TRUNC && p.node->kind == NODE_FILE)
		p.node->now.len = 0;
	if ((flags & O_ACCMODE) == O_RDONLY)
		tell_watcher(p.dir, DISK_READ, p.name);
	f = open_node(p.node, path, flags);
	return proc_install(proc_current, &f->v);
}

int sim_open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	fiber_may_yield();
	reach_disk();
	return open_at(root, path, flags, mode);
}

static struct node *node_at(int dirfd)
{
	struct open_file *f = dirfd == AT_FDCWD ? NULL : file_of(dirfd);

	return f ? f->node : root;
}

int sim_openat(int dirfd, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	reach_disk();
	return open_at(node_at(dirfd), path, flags, mode);
}

ssize_t sim_pread(int fd, void *p, size_t n, off_t at)
{
	struct open_file *f = file_of(fd);

	reach_disk();
	return f ? read_at(f->node, p, n, at) : -1;
}

ssize_t sim_pwrite(int fd, const void *p, size_t n, off_t at)
{
	struct open_file *f = file_of(fd);

	return f ? write_at(f->node, p, n, at) : -1;
}

off_t sim_lseek(int fd, off_t to, int whence)
{
	struct open_file *f = file_of(fd);

	if (!f)
		return -1;
	f->at = (whence == SEEK_SET          ? 0
	                : whence == SEEK_CUR ? f->at
	                                     : (off_t)f->node->now.len) +
	    to;
	return f->at;
}

int sim_ftruncate(int fd, off_t n)
{
	struct open_file *f = file_of(fd);
	char none = 0;

	if (!f)
		return -1;
	if ((size_t)n > f->node->now.len)
		return write_at(f->node, &none, 1, n - 1) < 0 ? -1 : 0;
	f->node->now.len = (size_t)n;
	return 0;
}

int sim_fallocate(int fd, int mode, off_t at, off_t n)
{
	(void)mode;
	(void)at;
	(void)n;
	return file_of(fd) ? (disk_fails(true) ? -1 : 0) : -1;
}

int sim_posix_fallocate(int fd, off_t at, off_t n)
{
	return sim_fallocate(fd, 0, at, n) ? errno : 0;
}

static bool are_names_synced(const struct node *n)
{
	if (n->names.n != n->names_synced.n)
		return false;
	for (size_t i = 0; i < n->names.n; i++)
		if (n->names.at[i].node != n->names_synced.at[i].node ||
		    strcmp(n->names.at[i].name, n->names_synced.at[i].name) != 0)
			return false;
	return true;
}

static void sync_node(struct node *n)
{
	if (n->kind == NODE_DIR) {
		if (are_names_synced(n))
			return;
		for (size_t i = 0; i < n->names_synced.n; i++)
			unref_node(n->names_synced.at[i].node);
		free_names(&n->names_synced);
		for (size_t i = 0; i < n->names.n; i++)
			add_entry(&n->names_synced, n->names.at[i].name, n->names.at[i].node);
		return;
	}
	if (n->same > n->now.len)
		n->same = n->now.len;
	reserve(&n->synced, n->now.len);
	if (n->now.len > n->same)
		memcpy(n->synced.data + n->same, n->now.data + n->same, n->now.len - n->same);
	n->synced.len = n->same = n->now.len;
}

/* It takes a millisecond or more. */
int sim_fsync(int fd)
{
	struct open_file *f = file_of(fd);
	struct waitq never = { 0 };

	if (!f)
		return -1;
	if (f->out)
		return errno = EINVAL, -1;
	fiber_wait_one(&never, sim_now + 100 * USEC + (int64_t)sim_below(2000) * USEC);
	reach_disk();
	if (disk_fails(false))
		return -1;
	sync_node(f->node);
	return 0;
}

int sim_fdatasync(int fd)
{
	return sim_fsync(fd);
}

int sim_flock(int fd, int op)
{
	struct open_file *f = file_of(fd);
	struct node *n = f ? f->node : NULL;

	if (!f)
		return -1;
	if (op & LOCK_UN) {
		unlock_node(f);
		return 0;
	}
	while ((n->lock_exclusive && n->lock_exclusive != f) ||
	    (op & LOCK_EX && n->lock_shared > f->shares_lock)) {
		if (op & LOCK_NB)
			return errno = EWOULDBLOCK, -1;
		fiber_wait_one(&n->unlocked, INT64_MAX);
	}
	unlock_node(f);
	if (op & LOCK_EX) {
		n->lock_exclusive = f;
	} else {
		n->lock_shared++;
		f->shares_lock = true;
	}
	return 0;
}

/* fcntl's locks of whole open files; only the exclusive one is used. */
int disk_lock(int fd, int op, struct flock *l)
{
	struct open_file *f = file_of(fd);
	bool held;

	if (!f)
		return -1;
	held = f->node->lock_exclusive && f->node->lock_exclusive != f;
	if (op == F_OFD_GETLK) {
		l->l_type = held ? F_WRLCK : F_UNLCK;
		l->l_pid = -1;
		return 0;
	}
	if (l->l_type == F_UNLCK) {
		unlock_node(f);
		return 0;
	}
	if (held)
		return errno = EAGAIN, -1;
	f->node->lock_exclusive = f;
	return 0;
}

/* ---- status ---- */

static int fill_stat(const struct node *n, struct stat *st)
{
	memset(st, 0, sizeof *st);
	st->st_mode = n->mode |
	    (n->kind == NODE_DIR           ? S_IFDIR
	            : n->kind == NODE_FILE ? S_IFREG
	                                   : S_IFSOCK);
	st->st_ino = n->ino;
	st->st_dev = 1;
	st->st_nlink = 1;
	st->st_size = (off_t)n->now.len;
	st->st_blocks = (blkcnt_t)(n->now.len / 512);
	st->st_mtim.tv_sec = n->mtime / SEC;
	st->st_mtim.tv_nsec = n->mtime % SEC;
	st->st_ctim = st->st_mtim;
	return 0;
}

int sim_stat(const char *path, struct stat *st)
{
	const struct node *n;

	reach_disk();
	n = node_of(path);
	return n ? fill_stat(n, st) : -1;
}

int sim_lstat(const char *path, struct stat *st)
{
	return sim_stat(path, st);
}

int sim_fstat(int fd, struct stat *st)
{
	struct vfile *v = proc_vfile(fd);
	struct open_file *f = v ? file_of(fd) : NULL;

	if (!v)
		return -1;
	if (f && f->node)
		return fill_stat(f->node, st);
	memset(st, 0, sizeof *st);
	st->st_mode = f ? S_IFCHR : S_IFSOCK;
	return 0;
}

int sim_fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
	struct place p;

	(void)flags;
	if (walk(node_at(dirfd), path, &p))
		return -1;
	if (!p.node)
		return errno = ENOENT, -1;
	return fill_stat(p.node, st);
}

int sim_access(const char *path, int mode)
{
	(void)mode;
	return node_of(path) ? 0 : -1;
}

int sim_chmod(const char *path, mode_t mode)
{
	struct node *n = node_of(path);

	if (!n)
		return -1;
	n->mode = mode;
	return 0;
}

int sim_fchmod(int fd, mode_t mode)
{
	struct open_file *f = file_of(fd);

	if (!f)
		return -1;
	f->node->mode = mode;
	return 0;
}

int sim_fstatfs(int fd, struct statfs *st)
{
	if (!file_of(fd))
		return -1;
	memset(st, 0, sizeof *st);
	st->f_bsize = 4096;
	st->f_blocks = st->f_bfree = st->f_bavail = 1 << 24;
	return 0;
}

/* ---- names ---- */

int sim_mkdir(const char *path, mode_t mode)
{
	struct place p;

	if (walk(root, path, &p))
		return -1;
	if (p.node)
		return errno = EEXIST, -1;
	if (disk_fails(true))
		return -1;
	p.node = make_node(NODE_DIR, mode & 0777);
	p.node->parent = p.dir;
	add_entry(&p.dir->names, p.name, p.node);
	unref_node(p.node);
	return 0;
}

static int unlink_at(struct node *from, const char *path, bool dir)
{
	struct place p;

	if (walk(from, path, &p))
		return -1;
	if (!p.node)
		return errno = ENOENT, -1;
	if (dir != (p.node->kind == NODE_DIR))
		return errno = dir ? ENOTDIR : EISDIR, -1;
	if (dir && p.node->names.n)
		return errno = ENOTEMPTY, -1;
	drop_entry(&p.dir->names, find_entry(&p.dir->names, p.name));
	return 0;
}

int sim_unlink(const char *path)
{
	reach_disk();
	return unlink_at(root, path, false);
}

int sim_unlinkat(int dirfd, const char *path, int flags)
{
	return unlink_at(node_at(dirfd), path, flags & AT_REMOVEDIR);
}

int sim_remove(const char *path)
{
	return unlink_at(root, path, false) && errno == EISDIR ? unlink_at(root, path, true) : 0;
}

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

int sim_renameat2(int olddir, const char *from, int newdir, const char *to, unsigned flags)
{
	struct place a, b;
	struct node *n;

	fiber_may_yield();
	/* The host may have been cut off after the request. */
	if (proc_current && away[proc_current->slot] && sim_chance(50))
		reach_disk();
	if (walk(node_at(olddir), from, &a) || walk(node_at(newdir), to, &b))
		return -1;
	if (!a.node)
		return errno = ENOENT, -1;
	if (b.node && flags & RENAME_NOREPLACE)
		return errno = EEXIST, -1;
	if (disk_fails(true))
		return -1;
	if (b.node && b.node->kind == NODE_DIR && b.node->names.n)
		return errno = ENOTEMPTY, -1;
	n = a.node;
	n->refs++;
	if (b.node)
		drop_entry(&b.dir->names, find_entry(&b.dir->names, b.name));
	drop_entry(&a.dir->names, find_entry(&a.dir->names, a.name));
	add_entry(&b.dir->names, b.name, n);
	n->parent = b.dir;
	unref_node(n);
	tell_watcher(b.dir, DISK_REPLACED, b.name);
	reach_disk();
	return 0;
}

int sim_rename(const char *from, const char *to)
{
	return sim_renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int sim_link(const char *from, const char *to)
{
	struct place b;
	struct node *n = node_of(from);

	if (!n || walk(root, to, &b))
		return -1;
	if (b.node)
		return errno = EEXIST, -1;
	add_entry(&b.dir->names, b.name, n);
	return 0;
}

ssize_t sim_readlink(const char *path, char *out, size_t n)
{
	const char *text = NULL;
	int fd;

	if (sscanf(path, "/proc/self/fd/%d", &fd) == 1) {
		struct open_file *f = file_of(fd);

		text = f ? f->path : NULL;
	} else if (strcmp(path, "/proc/self/ns/pid") == 0) {
		text = "pid:[1]";
	} else if (strcmp(path, "/proc/self/exe") == 0) {
		text = "/bin/program";
	}
	if (!text)
		return errno = ENOENT, -1;
	if (n > strlen(text))
		n = strlen(text);
	memcpy(out, text, n);
	return (ssize_t)n;
}

char *sim_realpath(const char *path, char *out)
{
	if (!node_of(path))
		return NULL;
	if (!out)
		out = sim_malloc(4096);
	snprintf(out, 4096, "%s%s", path[0] == '/' ? "" : "/", strcmp(path, ".") == 0 ? "" : path);
	return out;
}

char *sim_getcwd(char *out, size_t n)
{
	snprintf(out, n, "/");
	return out;
}

char *sim_get_current_dir_name(void)
{
	return sim_getcwd(sim_malloc(2), 2);
}

int sim_chdir(const char *path)
{
	(void)path;
	return errno = EACCES, -1;
}

static int make_temporary(char *path, bool dir, int flags)
{
	size_t n = strlen(path);

	for (;;) {
		for (size_t i = n - 6; i < n; i++)
			path[i] = (char)('a' + sim_below(26));
		if (!node_of(path))
			break;
	}
	return dir ? sim_mkdir(path, 0700)
	           : open_at(root, path, flags | O_CREAT | O_EXCL | O_RDWR, 0600);
}

char *sim_mkdtemp(char *path)
{
	return make_temporary(path, true, 0) ? NULL : path;
}

int sim_mkostemp(char *path, int flags)
{
	return make_temporary(path, false, flags);
}

/* ---- directories ---- */

struct listing {
	int fd;
	struct names names;
	size_t at;
	struct dirent entry;
};

DIR *sim_fdopendir(int fd)
{
	struct open_file *f = file_of(fd);
	struct listing *l;

	if (!f)
		return NULL;
	if (f->node->kind != NODE_DIR) {
		errno = ENOTDIR;
		return NULL;
	}
	l = must(calloc(1, sizeof *l));
	l->fd = fd;
	for (size_t i = 0; i < f->node->names.n; i++)
		add_entry(&l->names, f->node->names.at[i].name, f->node->names.at[i].node);
	return (DIR *)(void *)l;
}

DIR *sim_opendir(const char *path)
{
	int fd = open_at(root, path, O_RDONLY | O_DIRECTORY, 0);

	return fd < 0 ? NULL : sim_fdopendir(fd);
}

struct dirent *sim_readdir(DIR *d)
{
	struct listing *l = (void *)d;
	struct entry *e;

	if (l->at == l->names.n)
		return NULL;
	e = &l->names.at[l->at++];
	l->entry.d_ino = e->node->ino;
	l->entry.d_type = e->node->kind == NODE_DIR ? DT_DIR
	    : e->node->kind == NODE_FILE            ? DT_REG
	                                            : DT_SOCK;
	snprintf(l->entry.d_name, sizeof l->entry.d_name, "%s", e->name);
	return &l->entry;
}

int sim_dirfd(DIR *d)
{
	return ((struct listing *)(void *)d)->fd;
}

int sim_closedir(DIR *d)
{
	struct listing *l = (void *)d;

	for (size_t i = 0; i < l->names.n; i++)
		unref_node(l->names.at[i].node);
	free_names(&l->names);
	sim_close(l->fd);
	free(l);
	return 0;
}

typedef int (*nftw_fn)(const char *, const struct stat *, int, struct FTW *);

int sim_nftw(const char *path, nftw_fn fn, int fds, int flags)
{
	struct node *n = node_of(path);
	struct FTW ftw = { 0, 0 };
	struct stat st;
	int rc = 0;

	if (!n)
		return -1;
	for (size_t i = n->names.n; n->kind == NODE_DIR && !rc && i-- > 0;) {
		char child[4096];

		snprintf(child, sizeof child, "%s/%s", path, n->names.at[i].name);
		rc = sim_nftw(child, fn, fds, flags);
	}
	fill_stat(n, &st);
	return rc ? rc : fn(path, &st, n->kind == NODE_DIR ? FTW_DP : FTW_F, &ftw);
}

/* ---- streams of the C library, for reading ---- */

FILE *sim_fopen(const char *path, const char *mode)
{
	struct node *n = node_of(path);
	FILE *f;

	if (!n)
		return NULL;
	if (mode[0] != 'r' || n->kind != NODE_FILE || !n->now.len) {
		errno = EACCES;
		return NULL;
	}
	f = fmemopen(NULL, n->now.len + 1, "w+");
	if (f) {
		fwrite(n->now.data, 1, n->now.len, f);
		rewind(f);
	}
	return f;
}

/* ---- for the world outside ---- */

bool disk_bind(const char *path, struct vfile *listener)
{
	struct place p;

	if (walk(root, path, &p) || p.node)
		return false;
	p.node = make_node(NODE_SOCKET, 0755);
	p.node->listener = listener;
	add_entry(&p.dir->names, p.name, p.node);
	unref_node(p.node);
	return true;
}

static void forget_listener(struct node *n, struct vfile *v)
{
	if (n->listener == v)
		n->listener = NULL;
	for (size_t i = 0; i < n->names.n; i++)
		forget_listener(n->names.at[i].node, v);
}

/* The socket is closed: its file stays, and nobody listens. */
void disk_unbind(struct vfile *listener)
{
	forget_listener(root, listener);
}

struct vfile *disk_listener(const char *path)
{
	struct node *n = node_of(path);

	if (!n)
		return NULL;
	if (n->kind != NODE_SOCKET || !n->listener) {
		errno = ECONNREFUSED;
		return NULL;
	}
	return n->listener;
}

/* Makes the directories of a path that are missing. */
static void make_directories(const char *path)
{
	char dir[256];

	for (const char *end = strchr(path, '/'); end; end = strchr(end + 1, '/')) {
		struct place p;

		snprintf(dir, sizeof dir, "%.*s", (int)(end - path), path);
		if (walk(root, dir, &p))
			sim_panic("no place for %s", path);
		if (p.node)
			continue;
		p.node = make_node(NODE_DIR, 0755);
		p.node->parent = p.dir;
		add_entry(&p.dir->names, p.name, p.node);
		unref_node(p.node);
		sync_node(p.dir);
	}
}

void disk_put(const char *path, const void *data, size_t n)
{
	struct place p;

	make_directories(path);
	if (walk(root, path, &p))
		sim_panic("no place for %s", path);
	if (!p.node) {
		p.node = make_node(NODE_FILE, 0600);
		add_entry(&p.dir->names, p.name, p.node);
		unref_node(p.node);
	}
	p.node->now.len = p.node->same = 0;
	reserve(&p.node->now, n);
	if (n)
		memcpy(p.node->now.data, data, n);
	p.node->now.len = n;
	sync_node(p.node);
	sync_node(p.dir);
}

const char *disk_get(const char *path, size_t *n)
{
	struct node *node = node_of(path);

	if (!node || node->kind != NODE_FILE)
		return NULL;
	*n = node->now.len;
	return node->now.data ? node->now.data : "";
}

void disk_list(const char *path, void (*fn)(void *ctx, const char *name), void *ctx)
{
	struct node *n = node_of(path);

	for (size_t i = 0; n && i < n->names.n; i++)
		fn(ctx, n->names.at[i].name);
}

/* A process of another host listens there: its socket is not of the disk that has crashed. */
static void keep_listener(struct names *x, const struct entry *was)
{
	struct entry *now = find_entry(x, was->name);

	if (was->node->kind != NODE_SOCKET || !was->node->listener)
		return;
	if (now)
		drop_entry(x, now);
	add_entry(x, was->name, was->node);
}

/* Each file is as it was synced, or has a part of what was written since; each directory has the
 * names that were synced, or those of now. */
static bool crash_node(struct node *n)
{
	bool took = false;

	if (n->kind == NODE_FILE && n->now.len != n->synced.len && sim_chance(70)) {
		took = true;
		if (n->now.len > n->synced.len && zeros && sim_chance(zeros)) {
			memset(n->now.data + n->synced.len, 0, n->now.len - n->synced.len);
		} else if (n->now.len > n->synced.len) {
			n->now.len = n->synced.len +
			    sim_below((uint32_t)(n->now.len - n->synced.len + 1));
		} else {
			reserve(&n->now, n->synced.len);
			memcpy(n->now.data, n->synced.data, n->synced.len);
			n->now.len = n->synced.len;
		}
	}
	if (n->kind == NODE_DIR && sim_chance(70)) {
		struct names was = n->names;

		took = was.n != n->names_synced.n;
		n->names = (struct names){ 0 };
		for (size_t i = 0; i < n->names_synced.n; i++)
			add_entry(&n->names, n->names_synced.at[i].name,
			    n->names_synced.at[i].node);
		for (size_t i = 0; i < was.n; i++) {
			keep_listener(&n->names, &was.at[i]);
			unref_node(was.at[i].node);
		}
		free_names(&was);
	}
	for (size_t i = 0; i < n->names.n; i++)
		took |= crash_node(n->names.at[i].node);
	return took;
}

bool disk_lose_unsynced(const char *path)
{
	struct node *n = node_of(path);

	return n && crash_node(n);
}

void disk_reset(void)
{
	static const char meminfo[] = "MemAvailable: 4194304 kB\n";
	struct node *proc;

	if (root)
		unref_node(root);
	short_writes = zeros = 0;
	memset(away, 0, sizeof away);
	back = (struct waitq){ 0 };
	watcher = NULL;
	next_ino = 2;
	root = make_node(NODE_DIR, 0755);
	proc = make_node(NODE_DIR, 0755);
	proc->parent = root;
	add_entry(&root->names, "proc", proc);
	unref_node(proc);
	/* Without it, a host has no memory for tables that are added. */
	disk_put("/proc/meminfo", meminfo, sizeof meminfo - 1);
}
