/* SPDX-License-Identifier: ISC */
#include "core/lazy_load.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"

void *lazy_find(const char *library, const char *package, const char *name)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
	void *f = handle != NULL ? dlsym(handle, name) : NULL;

	if (f == NULL) {
		fprintf(stderr,
		    "%s: cannot load the library %s: %s; install the Debian package %s (apt-get install %s)\n",
		    program_invocation_short_name, library, dlerror(), package, package);
		_exit(127);
	}
	return f;
}

enum file_kind { FILE_NONE, FILE_OTHER, FILE_LIBRARY };

/* Is there such a file, and does it begin as a shared library does? */
static enum file_kind look_at_file(const char *dir, const char *name)
{
	char *path = mem_printf("%s/%s", dir, name), magic[SELFMAG] = "";
	FILE *f = fopen(path, "rbe");
	size_t n = f != NULL ? fread(magic, 1, sizeof magic, f) : 0;

	free(path);
	if (f == NULL)
		return FILE_NONE;
	fclose(f);
	return n == SELFMAG && memcmp(magic, ELFMAG, SELFMAG) == 0 ? FILE_LIBRARY : FILE_OTHER;
}

/* The directories in which the linker looks for libraries of the program, a fresh struct; NULL: they are not
 * known. */
static Dl_serinfo *search_directories(void)
{
	void *self = dlopen(NULL, RTLD_LAZY);
	Dl_serinfo size, *all = NULL;

	if (self != NULL && dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0) {
		all = mem_alloc(size.dls_size);
		*all = size;
		if (dlinfo(self, RTLD_DI_SERINFOSIZE, all) != 0 ||
		    dlinfo(self, RTLD_DI_SERINFO, all) != 0) {
			free(all);
			all = NULL;
		}
	}
	if (self != NULL)
		dlclose(self);
	return all;
}

bool lazy_is_there(const char *library)
{
	Dl_serinfo *all = search_directories();
	enum file_kind found = FILE_NONE;

	for (unsigned i = 0; all != NULL && found == FILE_NONE && i < all->dls_cnt; i++)
		found = look_at_file(all->dls_serpath[i].dls_name, library);
	free(all);
	return found == FILE_LIBRARY || dlopen(library, RTLD_LAZY | RTLD_LOCAL) != NULL;
}
