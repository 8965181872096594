/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf_key.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "data/source/data_uri.h"
#include "format/uri.h"

/* The place below `where` that has the cluster's name; NULL: where is none. */
static char *join_name(const char *where, const char *name)
{
	size_t n = strlen(where);

	if (!conf_is_named(where))
		return NULL;
	while (n > 0 && where[n - 1] == '/')
		n--;
	return mem_printf("%.*s/%s", (int)n, where, name);
}

char *conf_checkpoint_uri(const struct conf *c)
{
	return join_name(c->checkpoint_to, c->name);
}

char *conf_state_url(const struct conf *c)
{
	return join_name(c->state, c->name);
}

bool conf_path_is_stdin(const char *spec)
{
	return strcmp(spec, "-") == 0 || strncmp(spec, "-?", 2) == 0;
}

/* Escape the characters of a directory's name that a glob would interpret. */
static char *escape_glob_chars(const char *dir)
{
	struct buf out = BUF_INIT;

	for (const char *p = dir; *p; p++) {
		if (strchr("*?[]\\", *p))
			buf_puts(&out, "\\");
		buf_append(&out, p, 1);
	}
	return (char *)out.data;
}

char *conf_path_from(const char *dir, const char *spec)
{
	struct data_options options;
	char *file, *there, *name, *out;

	if (!dir || conf_path_is_stdin(spec))
		return mem_strdup(spec);
	/* A path with wrong options is joined as it is; conf_path_check reports the error. */
	if (data_uri_parse(spec, &file, &options, NULL) != ERR_OK)
		return path_join(dir, spec);
	data_uri_release(&options);
	there = path_join(dir, file);
	name = strpbrk(file, "*?[") && access(there, F_OK) != 0 ? escape_glob_chars(dir)
	                                                        : mem_strdup(dir);
	out = path_join(name, spec);
	free(file);
	free(there);
	free(name);
	return out;
}

enum err_code conf_path_check_file(const char *key, const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_set(e, ERR_NOTFOUND, "%s: no such file \"%s\"", key, path);
	if (access(path, R_OK) != 0)
		return err_sys(e, ERR_CONFIG, "%s: cannot read \"%s\"", key, path);
	if (S_ISDIR(st.st_mode))
		return err_set(e, ERR_CONFIG,
		    "%s: \"%s\" is a directory; name its files, as \"%s/*\"", key, path, path);
	return ERR_OK;
}

/* Check only the form of the name: the process that reads the object finds out whether it
 * exists. */
static enum err_code check_object_uri(const char *key, const char *name, struct err *e)
{
	struct uri u;
	enum err_code rc = uri_parse(name, &u, e);

	uri_release(&u);
	if (rc && e)
		err_prefix(e, "%s", key);
	return rc;
}

/* Whether the topic exists is found out by the process that reads it. */
static enum err_code check_topic_uri(const char *key, const char *name, struct err *e)
{
	struct uri_topic t;
	enum err_code rc = uri_topic_parse(name, &t, e);

	uri_topic_release(&t);
	if (rc && e)
		err_prefix(e, "%s", key);
	return rc;
}

enum err_code conf_path_check(const char *key, const char *spec, struct err *e)
{
	struct data_options options;
	char *path, **files;
	size_t n;
	enum err_code rc = data_uri_parse(spec, &path, &options, e);

	if (rc != ERR_OK) {
		if (e)
			err_prefix(e, "%s", key);
		return ERR_CONFIG;
	}
	data_uri_release(&options);
	if (uri_is_topic(path)) {
		rc = check_topic_uri(key, path, e);
		free(path);
		return rc;
	}
	if (strcmp(path, "-") == 0 || uri_is(path)) {
		rc = uri_is(path) ? check_object_uri(key, path, e) : ERR_OK;
		free(path);
		return rc;
	}
	rc = data_uri_expand(path, NULL, &files, &n, NULL);
	if (rc != ERR_OK)
		rc = err_set(e, ERR_NOTFOUND, "%s: no file matches \"%s\"", key, path);
	for (size_t i = 0; i < n && rc == ERR_OK; i++)
		rc = conf_path_check_file(key, files[i], e);
	data_uri_free(files, n);
	free(path);
	return rc;
}
