/* SPDX-License-Identifier: ISC */
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/output.h"
#include "data/store/data_cache.h"
#include "data/table/data_names.h"
#include "data/store/data_store.h"

static char dir[] = "/tmp/pskit-cache-XXXXXX";

static const struct data_want real, classes = { .classes = true }, two = { .two = true };

/* The test's directory, and the log of what the cache says. */
struct fixture {
	char *kept, *said;
	struct log log;
	struct data_cache cache;
};

static void set_up(struct fixture *f)
{
	f->kept = path_join(dir, "kept");
	f->said = path_join(dir, "said");
	log_init(&f->log, "test",
	    open(f->said, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600), LOG_LEVEL_INFO);
	f->cache = (struct data_cache){ f->kept, &f->log };
}

static void clear(struct fixture *f)
{
	file_remove_tree(f->kept, NULL);
	ok(ftruncate(f->log.fd, 0) == 0, "# a new log");
}

/* Lines of the log that have the text. */
static unsigned said(const struct fixture *f, const char *text)
{
	struct buf b = BUF_INIT;
	unsigned n = 0;

	file_read(f->said, 1 << 20, &b, NULL);
	for (const char *p = (char *)b.data; p && (p = strstr(p, text)); p = strchr(p, '\n'))
		n++;
	buf_release(&b);
	return n;
}

static void write_file(const char *name, const void *p, size_t n)
{
	char *path = path_join(dir, name);

	file_replace(path, p, n, 0600, NULL);
	free(path);
}

static void write_text(const char *name, const char *text)
{
	write_file(name, text, strlen(text));
}

static struct dataset *load(const struct fixture *f, const char *path, const struct data_want *want,
    const struct dataset *like)
{
	struct dataset *d;
	struct err e = { 0 };

	if (data_load_cached(&f->cache, &path, 1, dir, want, like, &d, &e) != ERR_OK)
		printf("# %s\n", e.msg);
	return d;
}

static bool bytes_are(const void *a, const void *b, size_t n)
{
	return !a == !b && (!a || memcmp(a, b, n) == 0);
}

static bool names_are(char **a, char **b, size_t n)
{
	bool good = !a == !b;

	for (size_t i = 0; good && a && i < n; i++)
		good = strcmp(a[i], b[i]) == 0;
	return good;
}

/* Have all features the same names, if any? */
static bool hashed_names_are(const struct dataset *a, const struct dataset *b)
{
	bool good = !a->names == !b->names;

	for (size_t i = 0; good && a->names && i < a->nids; i++) {
		char *x = data_names_find(a->names, a->id[i]),
		     *y = data_names_find(b->names, a->id[i]);

		good = x && y && strcmp(x, y) == 0;
		free(x);
		free(y);
	}
	return good;
}

static bool same(const struct dataset *a, const struct dataset *b)
{
	size_t values = a->sparse ? 0 : a->rows * a->cols, nnz = a->sparse ? a->start[a->rows] : 0;
	char x[DATA_DESCRIPTION], y[DATA_DESCRIPTION];

	if (a->rows != b->rows || a->cols != b->cols || a->sparse != b->sparse ||
	    a->nids != b->nids || a->classes != b->classes || a->index_base != b->index_base ||
	    a->scale != b->scale || a->target_shift != b->target_shift ||
	    a->reading.heading != b->reading.heading ||
	    a->reading.unwatched != b->reading.unwatched ||
	    a->reading.separator != b->reading.separator || a->target_factor != b->target_factor)
		return false;
	data_describe(a, x);
	data_describe(b, y);
	return strcmp(x, y) == 0 && bytes_are(a->x, b->x, values * 4) &&
	    bytes_are(a->x8, b->x8, values) && bytes_are(a->start, b->start, (a->rows + 1) * 8) &&
	    bytes_are(a->col, b->col, nnz * 4) && bytes_are(a->val, b->val, nnz * 4) &&
	    bytes_are(a->field, b->field, nnz * 2) && a->fields == b->fields &&
	    bytes_are(a->weight, b->weight, a->rows * 4) &&
	    bytes_are(a->group, b->group, a->rows * 8) &&
	    a->grouped_by_first == b->grouped_by_first && bytes_are(a->id, b->id, a->nids * 8) &&
	    bytes_are(a->y, b->y, a->rows * 4) && bytes_are(a->label, b->label, a->rows * 4) &&
	    bytes_are(a->class_value, b->class_value, a->classes * 8) &&
	    names_are(a->class_name, b->class_name, a->classes) &&
	    names_are(a->feature_name, b->feature_name, a->cols) && hashed_names_are(a, b);
}

static void both_ways(struct fixture *f, const char *path, const struct data_want *want,
    const struct dataset *like)
{
	struct fixture none = *f;
	struct dataset *a, *b, *c;

	none.cache.dir = NULL;
	a = load(&none, path, want, like);
	b = load(f, path, want, like);
	c = load(f, path, want, like);
	ok(a && b && c && !a->memory.map && !b->memory.map && c->memory.map && same(a, b) &&
	        same(a, c),
	    "%s: parsed, kept and read", path);
	dataset_free(a);
	dataset_free(b);
	dataset_free(c);
}

static void test_same(struct fixture *f)
{
	uint8_t images[16 + 5 * 6] = { 0, 0, 8, 3, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 3, 7, 200, 30 };
	uint8_t labels[8 + 5] = { 0, 0, 8, 1, 0, 0, 0, 5, 3, 1, 3, 2, 1 };
	struct dataset *train;

	clear(f);
	write_text("s", "1 1:0.5 7:2\n-1 3:1 900:-2.5\n1\n-1 1:1e-3\n");
	write_text("wide", "1 5:1 999999999999999999:2\n2 123456789012:3\n");
	write_text("f", "1 0:5:1 38:999999999999:2\n0 2:3:1\n");
	write_text("c", "w,h,kind\n1,2.5,pear\n-3,4,apple\n7,8,\"a \"\"b\"\"\"\n");
	write_text("n", "1,2,3.5\n4,5,-6\n");
	write_file("t-images-idx3-ubyte", images, sizeof(images));
	write_file("t-labels-idx1-ubyte", labels, sizeof(labels));
	both_ways(f, "s", &two, NULL);
	both_ways(f, "wide", &classes, NULL);
	both_ways(f, "f?norm=l2", &two, NULL);
	both_ways(f, "c", &classes, NULL);
	both_ways(f, "n", &real, NULL);
	write_text("g", "u,w,x,y\nann,1,1,2\nbob,2,2,3\n,1,3,5\n");
	both_ways(f, "g?group=u&weight=w", &real, NULL);
	write_text("r", "1\t2\t5\n1\t3\t4\n2\t2\t1\n");
	both_ways(f, "r?format=ratings", &real, NULL);
	write_text("words", "ann\tJaws\t5\nann\tBig \"B\"\t4\nbob\tJaws\t1\n");
	both_ways(f, "words?format=ratings", &real, NULL);
	both_ways(f, "t-images-idx3-ubyte", &classes, NULL);
	both_ways(f, "[s]?format=libsvm", &real, NULL);
	train = load(f, "s", &two, NULL);
	write_text("e", "-1 2:1\n");
	write_text("empty", "-1\n1\n");
	both_ways(f, "e", &two, train);
	both_ways(f, "empty?format=libsvm", &two, train);
	dataset_free(train);
	ok(said(f, "kept as") == 12 && said(f, "read from") == 13, "and the log says so");
}

static unsigned files_kept(const struct fixture *f)
{
	char *command = mem_printf("ls %s | grep -c 'parsed$'", f->kept), line[32] = "";
	FILE *p = popen(command, "r");

	if (!p || !fgets(line, sizeof(line), p))
		line[0] = '\0';
	if (p)
		pclose(p);
	free(command);
	return (unsigned)strtoul(line, NULL, 10);
}

/* Loaded and let go: from the cache? */
static bool mapped(const struct fixture *f, const char *path, const struct data_want *want,
    const struct dataset *like)
{
	struct dataset *d = load(f, path, want, like);
	bool good = d && d->memory.map;

	dataset_free(d);
	return good;
}

static void touch(const char *name, long sec, long nsec)
{
	char *path = path_join(dir, name);
	struct timespec t[2] = { { sec, nsec }, { sec, nsec } };

	ok(utimensat(AT_FDCWD, path, t, 0) == 0, "# another time");
	free(path);
}

static void test_names(struct fixture *f)
{
	struct dataset *like;

	clear(f);
	write_text("s", "1 1:1 2:2\n2 3:1\n");
	ok(!mapped(f, "s", &two, NULL) && mapped(f, "s", &two, NULL), "kept");
	ok(!mapped(f, "s", &classes, NULL) && !mapped(f, "s", &real, NULL) &&
	        !mapped(f, "s?index_base=0", &two, NULL) &&
	        !mapped(f, "s?format=libsvm", &two, NULL),
	    "labels and options have their part in the name");
	like = load(f, "s", &two, NULL);
	ok(!mapped(f, "s", &two, like) && mapped(f, "s", &two, like),
	    "and what evaluation takes from training");
	dataset_free(like);
	like = load(f, "s?index_base=0", &two, NULL);
	ok(!mapped(f, "s", &two, like), "of other training data: another");
	dataset_free(like);
	ok(mapped(f, "s", &two, NULL) && files_kept(f) == 7, "each has its file");
	write_text("s", "1 1:1 2:3\n2 3:1\n");
	ok(!mapped(f, "s", &two, NULL) && mapped(f, "s", &two, NULL) && files_kept(f) == 7,
	    "a file of the same length: another one, instead of the old");
	touch("s", 1000000000, 5);
	ok(!mapped(f, "s", &two, NULL), "another time");
	touch("s", 1000000000, 6);
	ok(!mapped(f, "s", &two, NULL), "by a nanosecond");
	write_text("s", "1 1:1 2:4\n2 3:1\n");
	touch("s", 1000000000, 6);
	ok(!mapped(f, "s", &two, NULL), "other contents of the same length and time");
}

/* Targets 1, 3 and 8 have the mean 4 and the variance 26 / 3. */
static void test_target_scaling(struct fixture *f)
{
	const struct data_want scaled = { .scale = "auto", .scales_targets = true },
	                       none = { .scale = "none", .scales_targets = true };
	struct data_want more = scaled;
	struct dataset *d, *like;

	clear(f);
	write_text("t", "1 1:1\n3 1:2\n8 2:1\n");
	write_text("u", "100 1:1\n200 2:1\n");
	both_ways(f, "t", &scaled, NULL);
	d = load(f, "t", &scaled, NULL);
	ok(d && d->memory.map && fabs(d->target_shift - 4) < 1e-12 &&
	        fabs(d->target_factor - 1 / sqrt(26.0 / 3)) < 1e-12,
	    "the cache keeps how models fit the targets");
	ok(!mapped(f, "t", &real, NULL), "another model may fit them as they are");
	like = load(f, "t", &none, NULL);
	ok(like && like->target_factor == 0, "as it is asked to by the scale \"none\"");
	dataset_free(like);
	like = load(f, "u", &scaled, d);
	ok(like && like->target_factor == 0, "evaluation data have no scaling of their own");
	dataset_free(like);
	more.base = d;
	both_ways(f, "u", &more, NULL);
	like = load(f, "u", &more, NULL);
	ok(like && like->target_shift == d->target_shift && like->target_factor == d->target_factor,
	    "data that extend others keep those of the others");
	dataset_free(like);
	d->target_shift = 5;
	ok(!mapped(f, "u", &more, NULL), "and are parsed again when these have others");
	dataset_free(d);
}

static void test_labels(struct fixture *f)
{
	uint8_t images[16 + 2] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 7, 9 };
	uint8_t labels[8 + 2] = { 0, 0, 8, 1, 0, 0, 0, 2, 0, 1 };
	struct dataset *d;

	clear(f);
	write_file("t-images-idx3-ubyte", images, sizeof(images));
	write_file("t-labels-idx1-ubyte", labels, sizeof(labels));
	ok(!mapped(f, "t-images-idx3-ubyte", &classes, NULL) &&
	        mapped(f, "t-images-idx3-ubyte", &classes, NULL),
	    "images");
	labels[8] = 2;
	write_file("t-labels-idx1-ubyte", labels, sizeof(labels));
	d = load(f, "t-images-idx3-ubyte", &classes, NULL);
	ok(d && !d->memory.map && d->label[0] == 1, "labels that change are seen");
	dataset_free(d);
	ok(!mapped(f, "t-images-idx3-ubyte?labels=t-labels-idx1-ubyte", &classes, NULL) &&
	        mapped(f, "t-images-idx3-ubyte?labels=t-labels-idx1-ubyte", &classes, NULL),
	    "labels by name");
	labels[8] = 3;
	write_file("t-labels-idx1-ubyte", labels, sizeof(labels));
	ok(!mapped(f, "t-images-idx3-ubyte?labels=t-labels-idx1-ubyte", &classes, NULL),
	    "and those, too");
}

/* The only file in the cache. */
static char *only_file(const struct fixture *f)
{
	char *command = mem_printf("echo %s/*.parsed/*-*", f->kept), line[256] = "";
	FILE *p = popen(command, "r");

	if (!p || !fgets(line, sizeof(line), p))
		line[0] = '\0';
	if (p)
		pclose(p);
	free(command);
	line[strcspn(line, "\n")] = '\0';
	return mem_strdup(line);
}

static bool refused(const char *path, const char *key, const struct buf *b, size_t n)
{
	struct dataset *d = NULL;
	struct err e = { 0 };
	bool more,
	    good = file_replace(path, b->data, n, 0600, &e) == ERR_OK &&
	    data_store_map(path, key, &d, &more, &e) != ERR_OK && !d && e.msg[0];

	dataset_free(d);
	return good;
}

static void test_damage(struct fixture *f)
{
	struct buf b = BUF_INIT;
	char key[DIGEST_HEX] = "", *path;
	struct dataset *d;
	bool all = true, more;

	clear(f);
	write_text("c", "a,b,y\n1,2,cat\n3,4,dog\n5,6,eel\n");
	ok(!mapped(f, "c", &classes, NULL), "kept");
	path = only_file(f);
	file_read(path, 1 << 20, &b, NULL);
	memcpy(key, b.data + 24, DIGEST_HEX - 1);
	for (size_t i = 0; i < b.len; i++) {
		b.data[i] ^= (uint8_t)(1 << i % 8);
		all = all && refused(path, key, &b, b.len);
		b.data[i] ^= (uint8_t)(1 << i % 8);
	}
	ok(all && b.len > 300, "any of %zu bytes changed: refused", b.len);
	for (size_t n = 0; n < b.len; n++)
		all = all && refused(path, key, &b, n);
	ok(all, "cut to any length: refused");
	buf_append(&b, "", 1);
	ok(refused(path, key, &b, b.len), "longer: refused");
	b.len--;
	key[0] ^= 1;
	ok(refused(path, key, &b, b.len), "of other data: refused");
	ok(!refused(path, (char *)b.data + 24, &b, b.len), "as it was: not refused");
	if (geteuid() == 0) {
		key[0] ^= 1;
		ok(chown(path, 12345, 12345) == 0 &&
		        data_store_map(path, key, &d, &more, &(struct err){ 0 }) == ERR_FORMAT,
		    "another user's: refused");
	}
	b.data[b.len / 2] ^= 1;
	file_replace(path, b.data, b.len, 0600, NULL);
	d = load(f, "c", &classes, NULL);
	ok(d && !d->memory.map && d->rows == 3 &&
	        said(f, "is unusable and is rebuilt: its checksum") == 1,
	    "said once");
	dataset_free(d);
	ok(mapped(f, "c", &classes, NULL), "made anew");
	free(path);
	buf_release(&b);
}

/* The library's read: of the next `reads_fail` that are large enough to be of a cached file, each
 * fails. */
static int reads_fail;

ssize_t read(int fd, void *p, size_t n)
{
	char path[64], name[512];
	ssize_t len;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	len = reads_fail > 0 ? readlink(path, name, sizeof name - 1) : 0;
	name[len > 0 ? len : 0] = '\0';
	if (!strstr(name, ".parsed/"))
		return (ssize_t)syscall(SYS_read, fd, p, n);
	reads_fail--;
	errno = EIO;
	return -1;
}

/* A disk that fails for a moment, and then for longer: its file may be whole, and stays as it
 * is. */
static void test_unread(struct fixture *f)
{
	struct dataset *d;
	struct stat was, now;
	char *path;

	clear(f);
	write_text("s", "1 1:1 2:2\n2 3:1\n");
	ok(!mapped(f, "s", &two, NULL), "kept");
	path = only_file(f);
	stat(path, &was);
	reads_fail = 2;
	ok(mapped(f, "s", &two, NULL) && reads_fail == 0, "a read that failed is tried again");
	reads_fail = 1000000;
	d = load(f, "s", &two, NULL);
	ok(d && !d->memory.map && d->rows == 2 && said(f, "cannot be read") == 1 &&
	        said(f, "is unusable") == 0,
	    "a disk that goes on failing: said once, and parsed");
	dataset_free(d);
	reads_fail = 0;
	ok(stat(path, &now) == 0 && now.st_ino == was.st_ino && mapped(f, "s", &two, NULL),
	    "its file stays, and is used when it can be read");
	free(path);
}

/* A file of another version under the name of this one is refused, and made again. */
static void test_version(struct fixture *f)
{
	struct buf b = BUF_INIT;
	char *path;

	clear(f);
	write_text("s", "1 1:1 2:2\n2 3:1\n");
	ok(!mapped(f, "s", &two, NULL), "kept");
	path = only_file(f);
	file_read(path, 1 << 20, &b, NULL);
	b.data[7] = '1';
	file_replace(path, b.data, b.len, 0600, NULL);
	ok(!mapped(f, "s", &two, NULL) && said(f, "does not begin with the magic number") == 1 &&
	        mapped(f, "s", &two, NULL),
	    "a file of another version is rebuilt");
	free(path);
	buf_release(&b);
}

static void test_together(struct fixture *f)
{
	struct buf text = BUF_INIT;
	int status, good = 0;
	pid_t pid[4];

	clear(f);
	for (int i = 0; i < 50000; i++)
		buf_printf(&text, "%d 1:0.25 %d:1\n", i % 2, i + 2);
	write_file("s", text.data, text.len);
	for (int i = 0; i < 4; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			struct dataset *d = load(f, "s", &two, NULL);

			_exit(d && d->rows == 50000 && d->nids == 50001 ? 0 : 1);
		}
	}
	for (int i = 0; i < 4; i++)
		good += waitpid(pid[i], &status, 0) == pid[i] && status == 0;
	ok(good == 4 && said(f, "kept as") == 1 && said(f, "read from") == 3,
	    "of four at once one parses");
	buf_release(&text);
}

static void test_no_room(struct fixture *f)
{
	struct rlimit old, little = { 1000, RLIM_INFINITY };
	struct fixture other = *f;
	struct dataset *d;
	char *torn = mem_printf("%s/x", f->kept), *command;

	clear(f);
	write_text("s", "1 1:1 2:2\n2 3:1\n");
	ok(!mapped(f, "s", &two, NULL) && mapped(f, "s", &two, NULL), "kept");
	free(torn);
	torn = only_file(f);
	command = mem_printf("mv %s %s.tmp-0123456789abcdef", torn, torn);
	ok(system(command) == 0 && !mapped(f, "s", &two, NULL),
	    "as if killed while it was written");
	free(command);
	command = mem_printf("test -z \"$(ls -R %s | grep tmp-)\"", f->kept);
	ok(system(command) == 0, "what was torn is removed");
	write_text("big",
	    "1 1:1 2:2\n2 3:1\n3 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1 12:1 13:1 14:1 15:1 16:1 17:1 18:1 19:1\n");
	getrlimit(RLIMIT_FSIZE, &old);
	little.rlim_max = old.rlim_max;
	little.rlim_cur = 600;
	ok(ftruncate(f->log.fd, 0) == 0 && setrlimit(RLIMIT_FSIZE, &little) == 0, "# little room");
	d = load(f, "big", &classes, NULL);
	setrlimit(RLIMIT_FSIZE, &old);
	ok(d && !d->memory.map && d->rows == 3 && said(f, "parsed data are not kept: ") == 1,
	    "no room: said, and gone on");
	dataset_free(d);
	ok(system(command) == 0, "nothing is left of it");
	other.cache.dir = "/nowhere/at/all";
	d = load(&other, "s", &two, NULL);
	ok(d && said(f, "cannot make the directory") == 1, "no directory: said, and gone on");
	dataset_free(d);
	other.cache.dir = f->said;
	d = load(&other, "s", &two, NULL);
	ok(d && said(f, "Not a directory") == 1, "a file for a directory: said, and gone on");
	dataset_free(d);
	free(torn);
	free(command);
}

int main(void)
{
	struct fixture f;

	output_begin();
	if (!mkdtemp(dir))
		return 1;
	set_up(&f);
	test_same(&f);
	test_names(&f);
	test_target_scaling(&f);
	test_labels(&f);
	test_damage(&f);
	test_unread(&f);
	test_version(&f);
	test_together(&f);
	test_no_room(&f);
	close(f.log.fd);
	free(f.kept);
	free(f.said);
	ok(file_remove_tree(dir, NULL) == ERR_OK, "cleaned up");
	return tap_done();
}
