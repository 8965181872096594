/* SPDX-License-Identifier: ISC */
#include "auth/keyfile.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/file.h"

#define FILE_MAX ((size_t)1 << 20)

/* Returns a descriptor that holds the lock until it is closed; -1 with e. */
static int lock_directory_of(const char *path, struct err *e)
{
	char *dir = path_dirname(path);
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX) != 0) {
		err_sys(e, ERR_IO, "cannot lock %s", dir);
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	free(dir);
	return fd;
}

enum err_code keyfile_add(const char *path, const struct keyring_entry *entry, size_t n,
    struct err *e)
{
	struct buf text = BUF_INIT;
	struct keyring *ring = NULL;
	int lock = lock_directory_of(path, e);
	enum err_code rc = lock < 0 ? ERR_IO : keyring_load(path, &ring, e);

	if (rc == ERR_OK)
		rc = file_read(path, FILE_MAX, &text, e);
	for (size_t i = 0; rc == ERR_OK && i < n; i++) {
		rc = keyring_add(ring, &entry[i], e);
		keyring_line(&entry[i], &text);
	}
	if (rc == ERR_OK)
		rc = file_replace(path, text.data, text.len, 0600, e);
	keyring_free(ring);
	buf_release(&text);
	if (lock >= 0)
		close(lock);
	return rc;
}

/* Is it the line with this name? The file was read as a keyring before, so each line is one
 * entry or none. */
static bool is_line_of(const char *line, size_t n, const char *name)
{
	size_t at = 0, len = strlen(name);

	for (int word = 0;; word++) {
		size_t begin;

		while (at < n && (line[at] == ' ' || line[at] == '\t'))
			at++;
		begin = at;
		while (at < n && line[at] != ' ' && line[at] != '\t')
			at++;
		if (at == begin || (word == 0 && line[begin] == '#'))
			return false;
		if (word == 2)
			return at - begin == len && memcmp(line + begin, name, len) == 0;
	}
}

static void copy_others(const struct buf *text, const char *name, struct buf *out)
{
	const char *s = (const char *)text->data, *end = s + text->len;

	while (s < end) {
		const char *nl = memchr(s, '\n', (size_t)(end - s));
		size_t n = nl != NULL ? (size_t)(nl - s) : (size_t)(end - s);

		if (!is_line_of(s, n, name))
			buf_append(out, s, n + (nl != NULL));
		s += n + (nl != NULL);
	}
}

enum err_code keyfile_remove(const char *path, const char *name, struct keyring_entry *was,
    struct err *e)
{
	struct buf text = BUF_INIT, out = BUF_INIT;
	const struct keyring_entry *entry = NULL;
	struct keyring *ring = NULL;
	int lock = lock_directory_of(path, e);
	enum err_code rc = lock < 0 ? ERR_IO : keyring_load(path, &ring, e);

	if (rc == ERR_OK && (entry = keyring_find_name(ring, name)) == NULL)
		rc = err_set(e, ERR_NOTFOUND, "there is no key named %.*s", KEYRING_NAME_MAX, name);
	if (rc == ERR_OK)
		rc = file_read(path, FILE_MAX, &text, e);
	if (rc == ERR_OK) {
		copy_others(&text, name, &out);
		rc = file_replace(path, out.data, out.len, 0600, e);
	}
	if (rc == ERR_OK && was != NULL)
		*was = *entry;
	keyring_free(ring);
	buf_release(&text);
	buf_release(&out);
	if (lock >= 0)
		close(lock);
	return rc;
}
