/* SPDX-License-Identifier: ISC */
#include "ckpt/kept.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/names.h"
#include "core/file.h"
#include "core/mem.h"
#include "msg/manifest.h"
#include "msg/state.h"
#include "sync/sync.h"

/* A place in a partition of a stream, or the step of a rank. */
struct mark {
	uint64_t id;
	int64_t at;
};

struct kept {
	uint64_t step, generation;
	/* Which file the manifest is; a checkpoint may be replaced by another one of its step. */
	ino_t inode;
	struct timespec written;
	bool lockstep;
	struct mark *place, *clock; /* of the partitions of the stream, and of the ranks */
	size_t nplaces, nclocks;
};

struct ckpt_kept {
	struct kept *list; /* the oldest first: by generation, then step */
	size_t n;
};

struct ckpt_kept *ckpt_kept_new(void)
{
	return mem_alloc(sizeof(struct ckpt_kept));
}

static void release_list(struct kept *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].place);
		free(list[i].clock);
	}
	free(list);
}

void ckpt_kept_free(struct ckpt_kept *k)
{
	if (!k)
		return;
	release_list(k->list, k->n);
	free(k);
}

size_t ckpt_kept_count(const struct ckpt_kept *k)
{
	return k->n;
}

/* ---- reading ---- */

static int compare_ids(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static void copy_marks(struct kept *x, const struct state_head *head)
{
	const struct state_leases *tasks = head->data ? head->data->tasks : NULL;

	x->nclocks = head->nranks;
	x->clock = mem_array(x->nclocks + 1, sizeof *x->clock);
	for (size_t i = 0; i < x->nclocks; i++)
		x->clock[i] = (struct mark){ (uint64_t)head->ranks[i].rank, head->ranks[i].clock };
	x->nplaces = tasks && tasks->stream ? tasks->nplaces : 0;
	x->place = mem_array(x->nplaces + 1, sizeof *x->place);
	for (size_t i = 0; i < x->nplaces; i++)
		x->place[i] = (struct mark){ (uint64_t)tasks->places[i].id,
			tasks->places[i].place };
	qsort(x->clock, x->nclocks, sizeof *x->clock, compare_ids);
	qsort(x->place, x->nplaces, sizeof *x->place, compare_ids);
}

/* Reads the manifest of the checkpoint at `path`. False: it cannot be read, so nobody resumes from
 * it. */
static bool read_kept(const char *path, struct kept *x)
{
	struct manifest *m = ckpt_manifest_read(path, NULL);
	struct state_head head;
	struct sync_mode mode;
	bool good = m && m->step >= 0 && m->generation >= 0 &&
	    state_head_decode(manifest_document(m), &head, NULL) == ERR_OK;

	if (good) {
		x->step = (uint64_t)m->step;
		x->generation = (uint64_t)m->generation;
		x->lockstep = m->mode && sync_parse(m->mode, &mode, NULL) == ERR_OK &&
		    sync_is_lockstep(&mode);
		copy_marks(x, &head);
		state_head_release(&head);
	}
	manifest_free(m);
	return good;
}

/* Moves what is known about this manifest from the previous list to *x. */
static bool take_known(struct ckpt_kept *k, struct kept *x)
{
	for (size_t i = 0; i < k->n; i++) {
		struct kept *old = &k->list[i];

		if (old->inode != x->inode || old->written.tv_sec != x->written.tv_sec ||
		    old->written.tv_nsec != x->written.tv_nsec)
			continue;
		*x = *old;
		old->place = old->clock = NULL;
		old->inode = 0;
		return true;
	}
	return false;
}

static int compare_age(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	if (x->generation != y->generation)
		return x->generation < y->generation ? -1 : 1;
	return x->step < y->step ? -1 : x->step > y->step;
}

/* Adds the checkpoint `name` to the list, if it has a manifest. */
static void look_at_checkpoint(struct ckpt_kept *k, const char *dir, const char *name,
    struct ckpt_kept *now)
{
	char *path = path_join(dir, name), *manifest = path_join(path, CKPT_MANIFEST);
	struct kept x = { 0 };
	struct stat st;

	if (stat(manifest, &st) == 0) {
		x.inode = st.st_ino;
		x.written = st.st_mtim;
		if (take_known(k, &x) || read_kept(path, &x)) {
			now->list = mem_regrow(now->list, now->n + 1, sizeof *now->list);
			now->list[now->n++] = x;
		}
	}
	free(manifest);
	free(path);
}

enum err_code ckpt_kept_look(struct ckpt_kept *k, const char *dir, struct err *e)
{
	DIR *d = opendir(dir);
	struct ckpt_kept now = { 0 };
	const struct dirent *entry;
	uint64_t step;

	if (!d && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot read the directory \"%s\"", dir);
	while (d && (entry = readdir(d)) != NULL)
		if (ckpt_step_parse(entry->d_name, &step))
			look_at_checkpoint(k, dir, entry->d_name, &now);
	if (d)
		closedir(d);
	if (now.n)
		qsort(now.list, now.n, sizeof *now.list, compare_age);
	release_list(k->list, k->n);
	*k = now;
	return ERR_OK;
}

/* ---- needs ---- */

static int64_t find_mark(const struct mark *list, size_t n, uint64_t id)
{
	const struct mark wanted = { .id = id },
	                  *found = n ? bsearch(&wanted, list, n, sizeof *list, compare_ids) : NULL;

	return found ? found->at : -1;
}

int64_t ckpt_kept_newest_place(const struct ckpt_kept *k, uint64_t partition)
{
	const struct kept *x = k->n ? &k->list[k->n - 1] : NULL;

	return x ? find_mark(x->place, x->nplaces, partition) : -1;
}

int64_t ckpt_kept_oldest_place(const struct ckpt_kept *k, uint64_t partition)
{
	int64_t oldest = -1;

	for (size_t i = 0; i < k->n; i++) {
		const struct kept *x = &k->list[i];
		int64_t place = find_mark(x->place, x->nplaces, partition);

		if (place < 0)
			return -1;
		oldest = oldest < 0 || place < oldest ? place : oldest;
	}
	return oldest;
}

/* The file that this rank loads when it resumes from the checkpoint; n: none. */
static size_t find_loaded_file(const struct kept *x, uint32_t rank, const uint64_t *steps, size_t n)
{
	int64_t own = find_mark(x->clock, x->nclocks, rank);
	uint64_t from = x->lockstep || own < 0 ? x->step : (uint64_t)own;
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (steps[middle] < from)
			low = middle + 1;
		else
			high = middle;
	}
	return x->lockstep && low < n && steps[low] != from ? n : low;
}

void ckpt_kept_mark_needed(const struct ckpt_kept *k, uint32_t rank, const uint64_t *steps,
    size_t n, bool *needed)
{
	for (size_t c = 0; c < k->n; c++) {
		size_t i = find_loaded_file(&k->list[c], rank, steps, n);

		if (i < n)
			needed[i] = true;
	}
}
