/* SPDX-License-Identifier: ISC */
#include "core/lazy_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The Debian packages of the libraries that are loaded at their first call. */
static const struct {
	const char *library, *package;
} packages[] = {
	{ "libcurl.so.4", "libcurl4" },
	{ "librdkafka.so.1", "librdkafka1" },
	{ "libopenblas.so.0", "libopenblas0" },
};

static void print_remedy(const char *library)
{
	for (size_t i = 0; i < sizeof packages / sizeof *packages; i++)
		if (strcmp(packages[i].library, library) == 0) {
			fprintf(stderr, "install the Debian package %s (apt-get install %s)\n",
			    packages[i].package, packages[i].package);
			return;
		}
	fputs("install its package\n", stderr);
}

void *lazy_find(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
	void *f = handle != NULL ? dlsym(handle, name) : NULL;

	if (f == NULL) {
		fprintf(stderr, "%s: cannot load the library %s: %s; ",
		    program_invocation_short_name, library, dlerror());
		print_remedy(library);
		_exit(127);
	}
	return f;
}
