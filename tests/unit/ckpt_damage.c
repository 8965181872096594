/* SPDX-License-Identifier: ISC */
/* What can go wrong with checkpoints: damage of every kind is named and passed
 * over, a full disk and a crash leave the last good one; which ones are kept. */
#include "ckpt_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/pskit-ckpt-XXXXXX";

static size_t names_in(const char *path, const char *part)
{
	DIR *d = opendir(path);
	struct dirent *entry;
	size_t n = 0;

	while (d && (entry = readdir(d)) != NULL)
		n += entry->d_name[0] != '.' ? strstr(entry->d_name, part) != NULL
		                             : strstr(entry->d_name, ".tmp-") && !*part;
	if (d)
		closedir(d);
	return n;
}

static void start_over(void)
{
	struct err e = { 0 };

	file_remove_tree(dir, &e);
	mkdir(dir, 0700);
}

struct passed {
	size_t n;
	char path[300], why[600];
};

static void pass(void *ctx, const char *path, const char *why)
{
	struct passed *p = ctx;

	p->n++;
	snprintf(p->path, sizeof p->path, "%s", path);
	snprintf(p->why, sizeof p->why, "%s", why);
}

/* The newest is of this step, and n were passed over. */
static bool newest_is(uint64_t step, size_t n, struct passed *p)
{
	char *path, name[CKPT_NAME];
	struct err e = { 0 };
	enum err_code rc;
	bool good;

	*p = (struct passed){ 0 };
	rc = ckpt_newest(dir, pass, p, &path, &e);
	ckpt_step_name(step, name);
	good = step ? !rc && strcmp(path_basename(path), name) == 0
	            : rc == (n ? ERR_FORMAT : ERR_NOTFOUND) && !path;
	free(path);
	return good && p->n == n;
}

/* ---- damage ---- */

static void put(const char *path, const void *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		printf("# cannot write %s\n", path);
	close(fd);
}

/* The damaged file is named, and the older checkpoint taken. */
static bool is_caught(const char *ckpt, const char *file)
{
	struct passed p;
	struct err e = { 0 };

	if (ckpt_verify(ckpt, &e) == ERR_FORMAT && strstr(e.msg, file) && newest_is(1, 1, &p) &&
	    strcmp(p.path, ckpt) == 0 && strstr(p.why, file))
		return true;
	printf("# %s: \"%s\", \"%s\"\n", file, e.msg, p.why);
	return false;
}

static void damage(const char *ckpt, const char *name)
{
	char *path = path_join(ckpt, name);
	struct buf b = BUF_INIT;
	struct err e = { 0 };
	bool cuts = true, flips = true;
	size_t step, n = 0;

	file_read(path, 1 << 24, &b, &e);
	step = b.len / 97 + 1;
	for (size_t len = 0; cuts && len < b.len;
	     len += len < 10 || len + 10 > b.len ? 1 : step, n++) {
		put(path, b.data, len);
		cuts = is_caught(ckpt, name);
	}
	ok(cuts, "%s: cut off at %zu places of %zu", name, n, b.len);
	n = 0;
	for (size_t at = 0; flips && at < b.len; at += at < 10 || at + 90 > b.len ? 1 : step, n++) {
		b.data[at] ^= (uint8_t)(1 << at % 8);
		put(path, b.data, b.len);
		b.data[at] ^= (uint8_t)(1 << at % 8);
		flips = is_caught(ckpt, name);
	}
	ok(flips, "%s: one bit wrong at %zu places", name, n);
	buf_puts(&b, "x");
	put(path, b.data, b.len--);
	ok(is_caught(ckpt, name), "%s: a byte too many", name);
	unlink(path);
	ok(is_caught(ckpt, name), "%s: gone", name);
	if (symlink("/etc/passwd", path) == 0)
		ok(is_caught(ckpt, name), "%s: a link to elsewhere", name);
	unlink(path);
	put(path, b.data, b.len);
	buf_release(&b);
	free(path);
}

static void copy_file(const char *from, const char *to, const char *name)
{
	char *a = path_join(from, name), *b = path_join(to, name);
	struct buf text = BUF_INIT;

	file_read(a, 1 << 24, &text, NULL);
	put(b, text.data, text.len);
	buf_release(&text);
	free(a);
	free(b);
}

static void test_damage(void)
{
	static const char *const files[] = { "server-0.params.safetensors",
		"server-0.state.safetensors", "server-1.params.safetensors",
		"server-1.state.safetensors", "MANIFEST.json" };
	struct model *m = model_new(1, 2), *other = model_new(2, 2);
	struct ckpt_entry *list;
	struct passed p;
	struct err e = { 0 };
	char *old, *path;
	size_t n;

	memcpy(other->ids, m->ids, sizeof m->ids); /* the same shapes */
	for (size_t i = 0; i < PARTS; i++)
		other->part[i].n = m->part[i].n;
	model_save(other, dir, 1, 2, 1, 0, &old, &e);
	model_save(m, dir, 2, 2, 1, 0, &path, &e);
	ok(newest_is(2, 0, &p), "the newest");
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		damage(path, files[i]);
	ok(newest_is(2, 0, &p), "mended again, all of it");
	copy_file(old, path, files[0]);
	ok(is_caught(path, files[0]), "a file of another checkpoint");
	copy_file(old, path, files[4]);
	ok(newest_is(1, 1, &p) && strcmp(p.path, path) == 0,
	    "the manifest of another checkpoint: %s", p.why);
	ckpt_list(dir, false, &list, &n, &e);
	ok(n == 2 && list[0].whole && !list[1].whole && list[1].step == 2 && list[1].why,
	    "and the list tells");
	ckpt_list_free(list, n);
	file_remove_tree(old, &e);
	ok(newest_is(0, 1, &p), "none is whole");
	free(old);
	free(path);
	free(m);
	free(other);
}

/* A description of n names, each of which has this letter. */
static struct large_description *describe(char letter, size_t n)
{
	json_t *names = json_array(), *facts;
	struct large_description *d;
	struct err e = { 0 };

	for (size_t i = 0; i < n; i++) {
		char *name = mem_printf("%c%zu", letter, i);

		json_array_append_new(names, json_string(name));
		free(name);
	}
	facts = json_pack("{s:o}", "names", names);
	ok(!large_description_of(facts, &d, &e) && d, "a description of %zu names is large", n);
	json_decref(facts);
	return d;
}

static bool has_description(const char *path, const struct large_description *d)
{
	struct manifest *m = ckpt_manifest_read(path, NULL);
	struct large_description *read = NULL;
	struct err e = { 0 };
	bool has = m && !ckpt_description_read(m, path, &read, &e) && read &&
	    strcmp(read->text, d->text) == 0;
	json_t *facts = NULL;

	has = has && !ckpt_facts_read(m, path, &facts, &e) &&
	    json_array_size(json_object_get(facts, "names")) > 0;
	if (!has)
		printf("# %s\n", e.msg);
	json_decref(facts);
	large_description_release(read);
	manifest_free(m);
	return has;
}

/* Puts the manifest with another member "data" in the place of the one that is there. */
static void write_data(const char *path, const char *data)
{
	struct manifest *m = ckpt_manifest_read(path, NULL);
	json_t *document = json_deep_copy(manifest_document(m));
	char *file = path_join(path, "MANIFEST.json"), *text;

	json_object_set_new(document, "data", json_loads(data, 0, NULL));
	text = ckpt_manifest_text(document);
	put(file, text, strlen(text));
	free(text);
	free(file);
	json_decref(document);
	manifest_free(m);
}

static void test_description(void)
{
	static const char name[] = "description.json";
	struct model *m = model_new(1, 2);
	struct large_description *other = describe('b', 12000);
	char *path, *delta = NULL, *data;
	struct passed p;
	struct err e = { 0 };
	struct ckpt *c;
	json_t *head = model_head(1, 0);

	start_over();
	model_save(m, dir, 1, 2, 1, 0, NULL, &e);
	m->large = describe('a', 12000);
	model_save(m, dir, 2, 2, 1, 0, &path, &e);
	ok(newest_is(2, 0, &p) && has_description(path, m->large),
	    "a checkpoint has its large description: %s", e.msg);
	damage(path, name);
	ok(newest_is(2, 0, &p) && has_description(path, m->large), "it is whole again");
	/* The base's description does not become one of the delta checkpoint. */
	json_object_set_new(json_object_get(head, "data"), "facts", large_description_refer(other));
	ok(!ckpt_begin(dir, 3, &c, &e) && !ckpt_describe(c, other, &e) && !ckpt_base(c, path, &e) &&
	        !model_write(m, c, 2, &e) && !model_commit(c, head, &delta, &e) &&
	        newest_is(3, 0, &p) && has_description(delta, other) && names_in(delta, name) == 1,
	    "a delta checkpoint has one of its own: %s", e.msg);
	file_remove_tree(delta, NULL);
	free(delta);
	data = mem_printf("{\"facts\":{\"size\":%zu,\"blake2b\":\"%s\"}}", other->size,
	    other->blake2b);
	write_data(path, data);
	ok(is_caught(path, name), "a manifest that refers to another description is refused");
	write_data(path, "{\"facts\":{\"cols\":3}}");
	ok(is_caught(path, name), "so is one that refers to none");
	free(data);
	data = mem_printf("{\"facts\":{\"size\":%zu,\"blake2b\":\"%s\"}}", m->large->size,
	    m->large->blake2b);
	write_data(path, data);
	ok(newest_is(2, 0, &p), "and the right one is taken");
	ok(!ckpt_begin(dir, 4, &c, &e) && !model_write(m, c, 2, &e) &&
	        model_commit(c, head, NULL, &e) == ERR_FAILED && newest_is(2, 0, &p),
	    "a checkpoint without the file that it refers to is not written: %s", e.msg);
	free(data);
	free(path);
	json_decref(head);
	large_description_release(other);
	large_description_release(m->large);
	free(m);
}

static const char *known_damage(void *ctx, const char *path)
{
	return ctx && strstr(path, ctx) ? "a server says so" : NULL;
}

static void count_passed(void *ctx, const char *path, const char *why)
{
	(void)ctx;
	(void)why;
	printf("# passed over: %s\n", path);
}

static bool newest_by_manifest_is(const char *known, uint64_t step, enum err_code code)
{
	char *path, name[CKPT_NAME];
	struct err e = { 0 };
	enum err_code rc = ckpt_newest_by_manifest(dir, known_damage, count_passed,
	    (void *)(uintptr_t)known, &path, &e);
	bool good;

	ckpt_step_name(step, name);
	good = rc == code && (code ? !path : strcmp(path_basename(path), name) == 0);
	free(path);
	return good;
}

/* Does a check of this share find damage? *steps: the pieces that it has compared. */
static bool share_is_damaged(const char *path, unsigned index, unsigned of, unsigned *steps)
{
	struct ckpt_share share = { index, of };
	struct ckpt_reader *r;
	struct ckpt_check *check = NULL;
	struct err e = { 0 };
	enum err_code rc = ckpt_open(path, &r, &e);

	*steps = 0;
	if (rc)
		return true;
	rc = ckpt_check_begin(r, &share, &check, &e);
	for (; !rc && !ckpt_check_is_done(check); ++*steps)
		rc = ckpt_check_some(check, 1000, &e);
	ckpt_check_free(check);
	ckpt_close(r);
	return rc != ERR_OK;
}

/* A coordinator chooses by the manifest; each server compares a share. */
static void test_shares(void)
{
	struct model *m = model_new(1, 1);
	struct err e = { 0 };
	char *path, *file;
	struct buf b = BUF_INIT;
	unsigned damaged = 0, found = 9, steps, all = 0;

	start_over();
	model_save(m, dir, 1, 3, 1, 0, NULL, &e);
	model_save(m, dir, 2, 3, 1, 0, &path, &e);
	file = path_join(path, "server-1.params.safetensors");
	for (unsigned i = 0; i < 3; i++) {
		damaged += share_is_damaged(path, i, 3, &steps);
		ok(steps > 2, "share %u of 3 has something to compare", i);
	}
	ok(!damaged && !share_is_damaged(path, 3, 4, &steps) && !steps,
	    "no share is damaged, and a fourth server has none");
	file_read(file, 1 << 24, &b, &e);
	b.data[b.len - 3] ^= 4;
	put(file, b.data, b.len);
	for (unsigned of = 1; of < 7; of++)
		for (unsigned i = 0; i < of; i++)
			if (share_is_damaged(path, i, of, &steps)) {
				all++;
				found = of == 3 ? i : found;
			}
	ok(all == 6 && found == 1, "a wrong bit is found in one share of any number of them");
	ok(newest_by_manifest_is(NULL, 2, ERR_OK), "the manifest does not show it");
	ok(newest_by_manifest_is("step-000000000002", 1, ERR_OK),
	    "once it is known the one before it is taken");
	ok(newest_by_manifest_is("step-", 0, ERR_FORMAT), "if all are damaged, none is");
	put(file, b.data, b.len - 1);
	ok(newest_by_manifest_is(NULL, 1, ERR_OK), "a file of another size shows");
	buf_release(&b);
	free(file);
	free(path);
	free(m);
}

/* Any text with a seal is a checkpoint or a sentence. */
static void test_mutants(const char *path, const char *file, const json_t *good)
{
	char *text = json_text(good), *mutant, *sealed, hex[DIGEST_HEX];
	size_t n = strlen(text), bad = 0;
	struct err e = { 0 };
	struct rng r;

	rng_init(&r, 1);
	for (int i = 0; i < 4000; i++) {
		size_t at = rng_below(&r, n - 1), len = rng_below(&r, 6);

		mutant = mem_strdup(text);
		if (i % 2)
			mutant[at] = "0123456789[]{},:\"-e"[rng_below(&r, 19)];
		else
			memmove(mutant + at, mutant + (at + len < n ? at + len : n - 1),
			    n - (at + len < n ? at + len : n - 1) + 1);
		digest_of(mutant, strlen(mutant), hex);
		sealed = mem_printf("%.*s,\"seal\":\"%s\"}\n", (int)strlen(mutant) - 1, mutant,
		    hex);
		put(file, sealed, strlen(sealed));
		bad += ckpt_verify(path, &e) != ERR_OK;
		free(sealed);
		free(mutant);
	}
	ok(bad > 1000, "%zu of 4000 changed and sealed manifests are refused, none does harm", bad);
	free(text);
}

/* A manifest that a coordinator could not resume from is not written; where one is there all the same, it
 * is passed over. */
static void test_undecodable(void)
{
	struct model *m = model_new(1, 1);
	json_t *head = model_head(1, 0),
	       *data = json_pack("{s:{s:i}}", "tasks", "counted_examples", -7), *document;
	struct manifest *manifest;
	struct passed p;
	struct err e = { 0 };
	char *path, *file, *text;
	struct ckpt *c;

	start_over();
	model_save(m, dir, 1, 1, 1, 0, NULL, &e);
	json_object_set(head, "data", data);
	ok(!ckpt_begin(dir, 2, &c, &e) && !model_write(m, c, 1, &e) &&
	        model_commit(c, head, NULL, &e) == ERR_FAILED && strstr(e.msg, "counted_examples"),
	    "a manifest that cannot be decoded is not written: %s", e.msg);
	ok(newest_is(1, 0, &p), "and the checkpoint before it is the newest one");
	model_save(m, dir, 2, 1, 1, 0, &path, &e);
	file = path_join(path, "MANIFEST.json");
	manifest = ckpt_manifest_read(path, &e);
	document = json_deep_copy(manifest_document(manifest));
	manifest_free(manifest);
	json_object_set_new(document, "data", data);
	text = ckpt_manifest_text(document);
	put(file, text, strlen(text));
	ok(newest_is(1, 1, &p) && strstr(p.why, "counted_examples") &&
	        newest_by_manifest_is(NULL, 1, ERR_OK),
	    "nor is one taken that is there: %s", p.why);
	free(text);
	json_decref(document);
	json_decref(head);
	free(file);
	free(path);
	free(m);
}

/* A manifest that is sealed, and yet says what is not so. */
static void test_lies(void)
{
	static const char *const paths[] = { "tables", "parts", "files", "step", "generation",
		"v" };
	struct model *m = model_new(1, 1);
	struct err e = { 0 };
	bool all = true;
	struct manifest *manifest;
	char *path, *file;
	json_t *good;

	start_over();
	model_save(m, dir, 1, 2, 1, 0, &path, &e);
	file = path_join(path, "MANIFEST.json");
	manifest = ckpt_manifest_read(path, &e);
	good = json_deep_copy(manifest_document(manifest));
	manifest_free(manifest);
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		for (int k = 0; k < 4; k++) {
			json_t *lie = json_deep_copy(good), *list = json_object_get(lie, paths[i]);
			char *text;

			if (k == 0)
				json_object_del(lie, paths[i]);
			else if (k == 1)
				json_object_set_new(lie, paths[i], json_string("x"));
			else if (!json_is_array(list))
				json_object_set_new(lie, paths[i], json_integer(i == 4 ? -1 : -9));
			else if (k == 2)
				json_array_remove(list, json_array_size(list) - 1);
			else
				json_array_append_new(list, json_null());
			if (k >= 2 && i == 4)
				json_object_set_new(lie, paths[i], json_real(0.5));
			text = ckpt_manifest_text(lie);
			put(file, text, strlen(text));
			if (ckpt_verify(path, &e) == ERR_OK) {
				printf("# taken: %s, %d\n", paths[i], k);
				all = false;
			}
			free(text);
			json_decref(lie);
		}
	ok(all, "sealed manifests that do not fit: %s", e.msg);
	test_mutants(path, file, good);
	json_decref(good);
	free(file);
	free(path);
	free(m);
}

/* ---- a full disk, a crash ---- */

static void limit_files(size_t bytes)
{
	struct rlimit now;

	getrlimit(RLIMIT_FSIZE, &now);
	now.rlim_cur = bytes;
	setrlimit(RLIMIT_FSIZE, &now);
}

static void test_full_disk(void)
{
	struct model *m = model_new(1, 2);
	struct passed p;
	struct err e = { 0 };
	bool all = true;
	size_t n = 0;

	start_over();
	signal(SIGXFSZ, SIG_IGN);
	model_save(m, dir, 1, 2, 1, 0, NULL, &e);
	for (size_t limit = 0; limit < 20000; limit += 61) {
		enum err_code rc;

		limit_files(limit);
		rc = model_save(m, dir, 2, 2, 1, 0, NULL, &e);
		limit_files(RLIM_INFINITY);
		if (rc == ERR_OK)
			break;
		n++;
		all = all && rc == ERR_IO && newest_is(1, 0, &p) && names_in(dir, "") == 1;
	}
	ok(all && n > 50, "the disk was full at %zu places: %s", n, e.msg);
	ok(newest_is(2, 0, &p), "then there was room");
	free(m);
}

/* The library's fsync: the fail_at-th call fails, counted from 1. */
static int syncs, fail_at;

int fsync(int fd)
{
	if (++syncs != fail_at)
		return (int)syscall(SYS_fsync, fd);
	errno = EIO;
	return -1;
}

static void test_sync(void)
{
	struct model *m = model_new(1, 2);
	struct passed p;
	struct err e = { 0 };
	bool all = true;
	int n = 0;

	m->large = describe('a', 12000);
	for (bool more = true; more && n < 100; n++) {
		start_over();
		fail_at = 0;
		model_save(m, dir, 1, 2, 1, 0, NULL, &e);
		syncs = 0;
		fail_at = n + 1;
		more = model_save(m, dir, 2, 2, 1, 0, NULL, &e) != ERR_OK;
		/* Where only the last name may be lost, the new one stands. */
		all = all &&
		    (!more || (syncs == n + 1 && e.code == ERR_IO && names_in(dir, "") <= 2));
		fail_at = 0;
		all = all && (newest_is(1, 0, &p) || newest_is(2, 0, &p));
		all = all && !model_save(m, dir, 2, 2, 1, 0, NULL, &e) && newest_is(2, 0, &p) &&
		    names_in(dir, "") == 2;
	}
	/* Each of six files and its name, the directory, its name, and that of checkpoints/. */
	ok(all && n - 1 == 15, "each of %d syncs failed, was not tried again, and harmed nothing",
	    n - 1);
	large_description_release(m->large);
	free(m);
}

/* The writer ends after so many of its doings; true when it came to its end. */
static bool crash(const struct model *m, unsigned after)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		struct err e = { 0 };
		struct ckpt *c;

		if (ckpt_begin(dir, 2, &c, &e) || after == 0 || ckpt_describe(c, m->large, &e) ||
		    model_write(m, c, after, &e) || after == 3)
			_exit(1);
		/* What a file half written leaves, beside others that are whole. */
		put(mem_printf("%s/server-7.params.safetensors.tmp-00", ckpt_tmp(c)), "abc", 3);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status) == 1;
}

static void test_crash(void)
{
	struct model *m = model_new(1, 2);
	struct ckpt_entry *list;
	struct passed p;
	struct err e = { 0 };
	bool all = true;
	size_t n;

	start_over();
	model_save(m, dir, 1, 2, 1, 0, NULL, &e);
	m->large = describe('a', 12000);
	for (unsigned after = 0; after < 4; after++) {
		list = NULL;
		n = 0;
		all = all && crash(m, after) && names_in(dir, "") == 2 && newest_is(1, 0, &p);
		all = all && !ckpt_list(dir, true, &list, &n, &e) && n == 1;
		ckpt_list_free(list, n);
	}
	ok(all, "unfinished ones are not seen, and one alone is left");
	model_save(m, dir, 2, 3, 1, 0, NULL, &e);
	ok(newest_is(2, 0, &p) && names_in(dir, "") == 2, "the next writer removes them");
	large_description_release(m->large);
	free(m);
}

/* ---- lists ---- */

static void test_replace(void)
{
	struct model *m = model_new(1, 2), *other = model_new(2, 2);
	char a[65] = "", b[65] = "", *path;
	struct ckpt_reader *r;
	struct passed p;
	struct err e = { 0 };

	start_over();
	model_save(m, dir, 7, 2, 1, 0, &path, &e);
	ckpt_open(path, &r, &e);
	free(path);
	ok(!model_save(other, dir, 7, 3, 2, 0, &path, &e) && newest_is(7, 0, &p) &&
	        names_in(dir, "") == 1,
	    "one of the same step is replaced %s", e.msg);
	ok(!ckpt_digest(r, a, &e), "who has it open may read on");
	ckpt_close(r);
	ckpt_open(path, &r, &e);
	ckpt_digest(r, b, &e);
	ok(ckpt_manifest(r)->generation == 2 && strcmp(a, b) != 0, "it is the later one");
	ckpt_close(r);
	free(path);
	model_save(m, dir, 9, 2, 1, 0, NULL, &e);
	ok(newest_is(7, 0, &p), "the later generation is newer, though its step is lower");
	free(m);
	free(other);
}

static void forget(void *ctx, const char *path)
{
	*(size_t *)ctx += path_basename(path)[0] == 's';
}

/* Steps 1..10, losses with a minimum at step 4; damaged: those whose bit is set. */
static bool pruned(struct ckpt_keep keep, unsigned damaged, const char *want)
{
	struct model *m = model_new(1, 1);
	struct ckpt_entry *list;
	struct buf got = BUF_INIT;
	struct err e = { 0 };
	size_t n, removed = 0;
	bool good;

	start_over();
	for (uint64_t step = 1; step <= 10; step++) {
		double off = (double)step - 4.1;
		char *path, *file;

		model_save(m, dir, step, 1, 1, step == 6 ? 0 : 1 + off * off, &path, &e);
		file = path_join(path, "server-0.params.safetensors");
		if (damaged >> step & 1) {
			struct buf b = BUF_INIT;

			file_read(file, 1 << 20, &b, &e);
			b.data[b.len - 1] ^= 4;
			put(file, b.data, b.len - (step == 3));
			buf_release(&b);
		}
		free(file);
		free(path);
	}
	good = !ckpt_prune(dir, &keep, forget, &removed, &e);
	ckpt_list(dir, false, &list, &n, &e);
	buf_puts(&got, "");
	for (size_t i = 0; i < n; i++)
		buf_printf(&got, "%s%d", i ? " " : "", (int)list[i].step);
	good = good && strcmp((const char *)got.data, want) == 0 && removed == 10 - n &&
	    names_in(dir, "") == n;
	if (!good)
		printf("# left: %s; %s\n", (const char *)got.data, e.msg);
	ckpt_list_free(list, n);
	buf_release(&got);
	free(m);
	return good;
}

static void test_prune(void)
{
	struct err e = { 0 };
	struct passed p;

	ok(pruned((struct ckpt_keep){ .last = 3 }, 0, "8 9 10"), "the last three");
	ok(pruned((struct ckpt_keep){ .last = 1, .every = 4 }, 0, "4 8 10"),
	    "every fourth, and the last");
	ok(pruned((struct ckpt_keep){ .last = 2, .best = 3 }, 0, "3 4 5 9 10"),
	    "the three best, and the last two");
	ok(pruned((struct ckpt_keep){ .last = 100 }, 0, "1 2 3 4 5 6 7 8 9 10"), "all");
	ok(pruned((struct ckpt_keep){ 0 }, 0, "10"),
	    "the newest whole one stays, whatever is asked");
	ok(pruned((struct ckpt_keep){ 0 }, 1 << 10, "9 10"),
	    "and is not the newest, when that is damaged");
	ok(pruned((struct ckpt_keep){ .last = 2 }, 7 << 8 | 1 << 3, "6 7 8 9 10"),
	    "damaged ones do not count");
	ok(pruned((struct ckpt_keep){ .last = 1 }, 0x7fe, "1 2 3 4 5 6 7 8 9 10"),
	    "where none is whole all stay");
	start_over();
	ok(!ckpt_prune(dir, &(struct ckpt_keep){ 0 }, NULL, NULL, &e) && newest_is(0, 0, &p),
	    "nothing to prune");
	file_remove_tree(dir, &e);
	ok(!ckpt_prune(dir, &(struct ckpt_keep){ 0 }, NULL, NULL, &e) && newest_is(0, 0, &p),
	    "no directory");
}

static void test_remove(void)
{
	struct model *m = model_new(1, 1);
	struct err e = { 0 };
	char *path;

	model_save(m, dir, 5, 1, 1, 0, &path, &e);
	ok(!ckpt_remove(path, &e) && names_in(dir, "") == 0, "removed");
	ok(ckpt_remove(path, &e) == ERR_NOTFOUND, "again: %s", e.msg);
	ok(ckpt_remove(dir, &e) == ERR_USAGE && access(dir, F_OK) == 0, "something else: %s",
	    e.msg);
	free(path);
	free(m);
}

/* A directory in the manifest's place cannot be read, as a file on a disk that fails: ERR_IO. */
static void test_unread(void)
{
	struct model *m = model_new(1, 2);
	struct ckpt_keep keep = { .last = 1 };
	struct ckpt_entry *list;
	struct err e = { 0 };
	char *path[4], *manifest, *aside, *newest;
	size_t n;

	start_over();
	for (uint64_t step = 1; step <= 3; step++)
		model_save(m, dir, step, 2, 1, 0, &path[step], &e);
	manifest = path_join(path[3], "MANIFEST.json");
	aside = path_join(path[3], "aside");
	if (rename(manifest, aside) || mkdir(manifest, 0700))
		printf("# cannot replace %s\n", manifest);
	ok(ckpt_newest(dir, NULL, NULL, &newest, &e) == ERR_IO && newest &&
	        strcmp(newest, path[3]) == 0,
	    "a checkpoint that cannot be read is not passed over: %s", e.msg);
	free(newest);
	ok(ckpt_newest_by_manifest(dir, NULL, NULL, NULL, &newest, &e) == ERR_IO && newest &&
	        strcmp(newest, path[3]) == 0,
	    "not even by its manifest: %s", e.msg);
	free(newest);
	ok(newest_by_manifest_is("step-000000000003", 2, ERR_OK),
	    "unless it is given up: then the one before is the newest");
	ckpt_list(dir, false, &list, &n, &e);
	ok(n == 3 && list[2].unread && !list[2].whole && list[2].why && !list[1].unread,
	    "the list says that it could not be read");
	ckpt_list_free(list, n);
	ok(!ckpt_prune(dir, &keep, NULL, NULL, &e) && ckpt_is_there(path[3]) &&
	        ckpt_is_there(path[2]) && !ckpt_is_there(path[1]),
	    "pruning removes neither it nor the newest whole one: %s", e.msg);
	if (rmdir(manifest) || rename(aside, manifest))
		printf("# cannot restore %s\n", manifest);
	ok(newest_by_manifest_is(NULL, 3, ERR_OK), "it can be read again, and is the newest");
	for (size_t i = 1; i <= 3; i++)
		free(path[i]);
	free(aside);
	free(manifest);
	free(m);
}

int main(void)
{
	struct err e = { 0 };

	if (sodium_init() < 0 || !mkdtemp(dir))
		return 1;
	test_damage();
	test_unread();
	test_description();
	test_lies();
	test_undecodable();
	test_shares();
	test_full_disk();
	test_sync();
	test_crash();
	test_replace();
	test_prune();
	test_remove();
	file_remove_tree(dir, &e);
	return tap_done();
}
