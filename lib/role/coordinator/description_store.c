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

#define PREFIX   "description-"
#define TEXT_MAX (64u << 20)

char *description_store_begin(const struct coordinator *coordinator, char **name)
{
	const char *file;
	const json_t *facts = coord_large_facts(coordinator->coord, &file);

	*name = NULL;
	if (!facts || strcmp(file, coordinator->file.described) == 0)
		return NULL;
	*name = mem_strdup(file);
	return json_text(facts);
}

/* Best effort: other files cost only space. */
void description_store_clean(const char *run_dir, const char *name)
{
	DIR *d = opendir(run_dir);
	const struct dirent *entry;

	while (d && (entry = readdir(d))) {
		char *path;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
		    strcmp(entry->d_name, name) == 0)
			continue;
		path = rundir_path(run_dir, entry->d_name);
		unlink(path);
		free(path);
	}
	if (d)
		closedir(d);
}

enum err_code description_store_write(const char *run_dir, const char *name, const char *text,
    struct err *e)
{
	char *path = rundir_path(run_dir, name);
	struct file_new f;
	enum err_code rc = file_new_open(path, 0600, &f, e);

	if (!rc)
		rc = file_new_close(&f, file_write_all(f.fd, text, strlen(text), e), e);
	free(path);
	return rc;
}

/* Reads the file, and compares its contents with its name. */
static enum err_code read_file(const char *path, const char *name, json_t **out, struct err *e)
{
	char *text, *is;
	enum err_code rc;

	*out = json_parse_file(path, TEXT_MAX, e);
	if (!*out)
		return e->code;
	text = json_text(*out);
	is = coord_facts_file(text);
	rc = strcmp(is, name) == 0
	    ? ERR_OK
	    : err_set(e, ERR_FORMAT, "%s is damaged: its contents are not those of its name", path);
	free(is);
	free(text);
	return rc;
}

enum err_code description_store_read(const char *run_dir, json_t *state, struct err *e)
{
	const char *name = json_string_value(json_object_get(json_object_get(state, "facts"),
	    "file"));
	json_t *facts;
	enum err_code rc;
	char *path;

	if (!name)
		return ERR_OK;
	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || strchr(name, '/'))
		return err_set(e, ERR_FORMAT,
		    "the state names \"%.60s\", which is no file of a description", name);
	path = rundir_path(run_dir, name);
	rc = read_file(path, name, &facts, e);
	free(path);
	if (rc)
		json_decref(facts);
	else
		json_object_set_new(state, "facts", facts);
	return rc;
}
