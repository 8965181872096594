/* SPDX-License-Identifier: ISC */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/authfile.h"
#include "auth/secrets.h"
#include "core/file.h"
#include "core/num.h"

/* psk.old: one line "pskit-old-psk1 SECONDS BASE64". */
#define OLD_WORD "pskit-old-psk1 "
#define OLD_MAX  128u

static enum err_code parse_old_psk(char *text, const char *path, struct secret_pair *pair,
    struct err *e)
{
	char *until = text + strlen(OLD_WORD), *key;

	if (strncmp(text, OLD_WORD, strlen(OLD_WORD)) == 0 && (key = strchr(until, ' ')) != NULL) {
		*key++ = '\0';
		key[strcspn(key, "\n")] = '\0';
		if (num_int(until, 1, INT64_MAX, &pair->until) && key_from_text(key, pair->before))
			return ERR_OK;
	}
	/* The message shows no byte of the file. */
	return err_set(e, ERR_AUTH, "%s: must be one line \"" OLD_WORD "SECONDS BASE64\"", path);
}

static enum err_code read_old_psk(const char *path, struct secret_pair *pair, struct err *e)
{
	char text[OLD_MAX + 1];
	size_t n;
	int fd;
	enum err_code rc = authfile_open(path, 0077, OLD_MAX, &fd, &n, e);

	pair->until = 0;
	if (rc != ERR_OK)
		return rc == ERR_NOTFOUND ? ERR_OK : rc;
	rc = file_read_all(fd, text, n, e);
	close(fd);
	text[rc == ERR_OK ? n : 0] = '\0';
	if (rc == ERR_OK)
		rc = parse_old_psk(text, path, pair, e);
	sodium_memzero(text, sizeof text);
	return rc;
}

enum err_code secrets_read_dir(const char *dir, struct secret_pair *pair, struct err *e)
{
	char *path = path_join(dir, "psk"), *old = path_join(dir, "psk.old");
	enum err_code rc = psk_load(path, pair->now, e);

	if (rc == ERR_OK)
		rc = read_old_psk(old, pair, e);
	free(path);
	free(old);
	return rc;
}

static enum err_code write_key_line(const char *dir, const char *name, const char *begin,
    const uint8_t key[static KEY_BYTES], struct err *e)
{
	char *path = path_join(dir, name), b64[48], text[OLD_MAX];
	enum err_code rc;
	int n;

	key_to_text(key, b64);
	n = snprintf(text, sizeof text, "%s %s\n", begin, b64);
	rc = file_replace(path, text, (size_t)n, 0600, e);
	sodium_memzero(b64, sizeof b64);
	sodium_memzero(text, sizeof text);
	free(path);
	return rc;
}

enum err_code secrets_rotate_dir(const char *dir, int64_t until, struct err *e)
{
	struct secret_pair pair = { .until = 0 };
	char begin[48];
	enum err_code rc = secrets_read_dir(dir, &pair, e);

	/* Write psk.old first, so that a reader of the new psk finds the old one beside it. */
	snprintf(begin, sizeof begin, OLD_WORD "%lld", (long long)until);
	if (rc == ERR_OK)
		rc = write_key_line(dir, "psk.old", begin, pair.now, e);
	if (rc == ERR_OK) {
		randombytes_buf(pair.now, sizeof pair.now);
		rc = write_key_line(dir, "psk", PSK_WORD, pair.now, e);
	}
	sodium_memzero(&pair, sizeof pair);
	return rc;
}

void secrets_tidy_dir(const char *dir, const struct secret_pair *pair, int64_t now)
{
	char *path;

	if (!pair->until || now < pair->until)
		return;
	path = path_join(dir, "psk.old");
	unlink(path);
	free(path);
}
