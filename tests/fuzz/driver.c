/* SPDX-License-Identifier: ISC */
#include <dirent.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/buf.h"
#include "core/file.h"

/* Feeds files, and the files of directories, to a harness: a corpus is replayed
 * with any compiler, where libFuzzer would bring its own main. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define INPUT_MAX (64u << 20)

static size_t feed(const char *path)
{
	struct buf b = BUF_INIT;
	struct err e = { 0 };
	uint8_t *exact;

	if (file_read(path, INPUT_MAX, &b, &e) != ERR_OK) {
		fprintf(stderr, "%s\n", e.msg);
		exit(1);
	}
	/* No byte more than the input has, so that a sanitizer sees reads past it. */
	exact = malloc(b.len ? b.len : 1);
	if (!exact)
		exit(1);
	if (b.len)
		memcpy(exact, b.data, b.len);
	LLVMFuzzerTestOneInput(exact, b.len);
	free(exact);
	buf_release(&b);
	return 1;
}

static size_t feed_all(const char *path)
{
	struct dirent *entry;
	struct stat st;
	size_t fed = 0;
	char *name;
	DIR *dir;

	if (stat(path, &st) != 0) {
		perror(path);
		exit(1);
	}
	if (!S_ISDIR(st.st_mode))
		return feed(path);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		name = path_join(path, entry->d_name);
		fed += feed_all(name);
		free(name);
	}
	if (dir)
		closedir(dir);
	return fed;
}

int main(int argc, char **argv)
{
	size_t fed = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: %s FILE|DIRECTORY ...\n", argv[0]);
		return 2;
	}
	for (int i = 1; i < argc; i++)
		fed += feed_all(argv[i]);
	printf("%zu inputs\n", fed);
	return fed == 0;
}
