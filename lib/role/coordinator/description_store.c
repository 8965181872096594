/* SPDX-License-Identifier: ISC */
#include "coordinator/description_store.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coord/coord.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "rundir/rundir.h"

#define PREFIX "description-"

/* The name of the file of the description with this digest, as a new string. */
static char *make_name(const char *blake2b)
{
	return mem_printf(PREFIX "%.16s.json", blake2b);
}

static char *make_path(const char *run_dir, const char *blake2b)
{
	char *name = make_name(blake2b), *path = rundir_path(run_dir, name);

	free(name);
	return path;
}

struct large_description *description_store_begin(const struct coordinator *coordinator)
{
	struct large_description *d = coord_large_description(coordinator->coord);

	mutex_assert_held(&coordinator->lock);
	return d && strcmp(d->blake2b, coordinator->file.described) != 0 ? large_description_hold(d)
	                                                                 : NULL;
}

/* Best effort: other files cost only space. */
void description_store_clean(const char *run_dir, const struct large_description *d)
{
	char *name = make_name(d->blake2b);
	DIR *dir = opendir(run_dir);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *path;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
		    strcmp(entry->d_name, name) == 0)
			continue;
		path = rundir_path(run_dir, entry->d_name);
		unlink(path);
		free(path);
	}
	if (dir)
		closedir(dir);
	free(name);
}

enum err_code description_store_write(const char *run_dir, const struct large_description *d,
    struct err *e)
{
	char *path = make_path(run_dir, d->blake2b);
	struct file_new f;
	enum err_code rc = file_new_open(path, 0600, &f, e);

	if (!rc)
		rc = file_new_close(&f, file_write_all(f.fd, d->text, d->size, e), e);
	free(path);
	return rc;
}

enum err_code description_store_read(const char *run_dir, const json_t *state,
    struct large_description **out, struct err *e)
{
	struct description_reference r;
	struct buf text = BUF_INIT;
	enum err_code rc;
	char *path;

	*out = NULL;
	if (!large_description_is_reference(json_object_get(state, "facts"), &r))
		return ERR_OK;
	path = make_path(run_dir, r.blake2b);
	rc = file_read(path, (size_t)r.size, &text, e);
	if (!rc)
		rc = large_description_check((char *)text.data, text.len, &r, path, out, e);
	else
		buf_release(&text);
	free(path);
	return rc;
}
