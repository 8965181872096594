/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "ckpt/dirs.h"
#include "ckpt/names.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/uri.h"
#include "saved/saved_source.h"
#include "serving/origin.h"

/* Times and sizes that the file system shows of a model. When they differ, there may be another
 * model. A run directory has several files and a directory of checkpoints, whose time changes when
 * a checkpoint appears in it. */
#define FILES 4
struct look {
	struct {
		dev_t dev;
		ino_t ino;
		off_t size;
		struct timespec changed;
	} file[FILES];
	bool any; /* at least one of them exists */
};

struct saved_origin {
	struct served_origin origin; /* must be first */
	char *path;
	/* As it was before the model was opened last, and at the last look of the watcher. */
	struct look opened, last;
};

static struct saved_origin *saved_of(struct served_origin *o)
{
	return (struct saved_origin *)o;
}

static void look_at(const char *dir, const char *name, size_t k, struct look *out)
{
	char *path = name ? path_join(dir, name) : mem_strdup(dir);
	struct stat st;

	if (stat(path, &st) == 0) {
		out->file[k].dev = st.st_dev;
		out->file[k].ino = st.st_ino;
		/* The size of a directory says nothing. */
		out->file[k].size = S_ISDIR(st.st_mode) ? 0 : st.st_size;
		out->file[k].changed = st.st_mtim;
		out->any = true;
	}
	free(path);
}

static struct look take_look(const char *path)
{
	struct look x;
	struct stat st;

	memset(&x, 0, sizeof x);
	if (uri_is(path))
		return x;
	if (stat(path, &st) || !S_ISDIR(st.st_mode)) {
		look_at(path, NULL, 0, &x);
	} else {
		look_at(path, CKPT_MANIFEST, 0, &x);
		look_at(path, "model.safetensors", 1, &x);
		look_at(path, "checkpoints", 2, &x);
		look_at(path, "result.json", 3, &x);
	}
	return x;
}

static bool looks_equal(const struct look *a, const struct look *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

void origin_describe_saved(const char *path, struct served_model *m)
{
	bool checkpoint = ckpt_is_there(path);
	char *manifest = checkpoint ? path_join(path, CKPT_MANIFEST) : mem_strdup(path);
	const char *name = path_basename(path);
	struct stat st;
	struct tm tm;
	uint64_t step;
	char text[40] = "";

	if (stat(manifest, &st) == 0) {
		m->made = st.st_mtim.tv_sec * NSEC_PER_SEC + st.st_mtim.tv_nsec;
		gmtime_r(&st.st_mtim.tv_sec, &tm);
		strftime(text, sizeof text, "%Y%m%dT%H%M%S", &tm);
	}
	if (ckpt_step_parse(name, &step))
		snprintf(m->version, sizeof m->version, "%.60s", name);
	else if (m->made)
		snprintf(m->version, sizeof m->version, "%s.%06ldZ", text,
		    st.st_mtim.tv_nsec / 1000);
	else
		snprintf(m->version, sizeof m->version, "unnamed");
	free(manifest);
}

static enum err_code open_saved(struct served_origin *o, bool check, struct served_model *m,
    struct err *e)
{
	struct saved_origin *s = saved_of(o);
	enum err_code rc;

	s->opened = s->last = take_look(s->path);
	rc = saved_source_open(s->path, &m->source, e);
	if (!rc && check)
		rc = param_source_finish(m->source, e);
	if (!rc)
		origin_describe_saved(saved_source_about(m->source).path, m);
	return rc;
}

/* A file that is being written differs at each look. It is opened when two looks are equal. */
static bool saved_has_changed(struct served_origin *o, bool forced)
{
	struct saved_origin *s = saved_of(o);
	struct look now = take_look(s->path), before = s->last;

	s->last = now;
	if (forced)
		return true;
	return now.any && looks_equal(&now, &before) && !looks_equal(&now, &s->opened);
}

static int64_t age_of_values(const struct served_origin *o, const struct served_model *m)
{
	(void)o;
	return m->made ? clock_wall() - m->made : -1;
}

static void free_saved(struct served_origin *o)
{
	free(saved_of(o)->path);
	free(o);
}

static const struct served_origin_ops saved_origin_ops = { .open = open_saved,
	.has_changed = saved_has_changed,
	.age = age_of_values,
	.free = free_saved };

struct served_origin *origin_saved(const char *path)
{
	struct saved_origin *s = mem_alloc(sizeof *s);

	*s = (struct saved_origin){ .origin.ops = &saved_origin_ops, .path = mem_strdup(path) };
	return &s->origin;
}
