/* SPDX-License-Identifier: ISC */
#include "core/lazy_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

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
