/* SPDX-License-Identifier: ISC */
#include "rundir/best_point.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"

#define FILE_NAME "best.json"
#define FILE_MAX  (1u << 20)

enum err_code best_point_write(const char *folder, const struct best_point *p, struct err *e)
{
	char *path = path_join(folder, FILE_NAME), *text;
	json_t *set = json_array(), *o;
	enum err_code rc;

	for (size_t i = 0; i < p->nset; i++)
		json_array_append_new(set, json_string(p->set[i]));
	o = json_pack("{s:s, s:o}", "cluster", p->cluster, "set", set);
	text = o ? json_text(o) : NULL;
	rc = text ? file_replace(path, text, strlen(text), 0600, e)
	          : err_set(e, ERR_CONFIG, "%s: a setting is not UTF-8", path);
	free(text);
	json_decref(o);
	free(path);
	return rc;
}

/* Copy the members of the document; false: it lacks one, or one has another type. */
static bool copy_members(const json_t *o, struct best_point *p)
{
	const json_t *cluster = json_object_get(o, "cluster"), *set = json_object_get(o, "set"),
	             *item;
	size_t i;

	if (!json_is_string(cluster) || !json_is_array(set))
		return false;
	p->cluster = mem_strdup(json_string_value(cluster));
	p->set = mem_array(json_array_size(set) + 1, sizeof *p->set);
	json_array_foreach(set, i, item) {
		if (!json_is_string(item))
			return false;
		p->set[p->nset++] = mem_strdup(json_string_value(item));
	}
	return true;
}

enum err_code best_point_read(const char *folder, struct best_point *p, struct err *e)
{
	char *path = path_join(folder, FILE_NAME);
	json_t *o = NULL;
	enum err_code rc = ERR_OK;

	*p = (struct best_point){ 0 };
	if (access(path, F_OK) != 0)
		rc = err_set(e, ERR_NOTFOUND,
		    "\"%s\" has no %s: give the folder of a sweep of which a point is done, as NAME.sweep",
		    folder, FILE_NAME);
	else if (!(o = json_parse_file(path, FILE_MAX, e)))
		rc = e->code;
	else if (!copy_members(o, p))
		rc = err_set(e, ERR_CONFIG,
		    "%s: is damaged: run ps-ctl sweep again, which keeps what is done", path);
	if (rc != ERR_OK)
		best_point_release(p);
	json_decref(o);
	free(path);
	return rc;
}

void best_point_release(struct best_point *p)
{
	for (size_t i = 0; i < p->nset; i++)
		free(p->set[i]);
	free(p->set);
	free(p->cluster);
	*p = (struct best_point){ 0 };
}
