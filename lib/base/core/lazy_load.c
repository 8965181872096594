/* SPDX-License-Identifier: ISC */
#include "core/lazy_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

void *lazy_find(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
	void *f = handle != NULL ? dlsym(handle, name) : NULL;

	if (f == NULL) {
		fprintf(stderr, "error while loading shared libraries: %s; install its package\n",
		    dlerror());
		_exit(127);
	}
	return f;
}
