/* SPDX-License-Identifier: ISC */
#ifndef CORE_LAZY_LOAD_H
#define CORE_LAZY_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Shared libraries that a program loads when it first calls them. Most calls of ps-ctl need none of
 * the large ones, and to load them takes several times as long as all the rest of a short call.
 *
 * LAZY_CALL defines a function of such a library, with the prototype that the library's header
 * declares: it finds the library's function and calls it. Any thread may call it. */
#define LAZY_CALL(library, package, type, name, params, args) \
	type name params \
	{ \
		static _Atomic(void *) found; \
		void *f = atomic_load_explicit(&found, memory_order_acquire); \
\
		if (f == NULL) { \
			f = lazy_find(library, package, #name); \
			atomic_store_explicit(&found, f, memory_order_release); \
		} \
		return ((__typeof__(&name))f)args; \
	}

/* Loads the library with this file name, as libcurl.so.4, if it is not loaded, and finds the
 * function in it. When either is missing, ends the program with exit code 127, as the dynamic
 * linker does, and a line on stderr that names the library and its Debian package. */
void *lazy_find(const char *library, const char *package, const char *name);

/* Can this process load the library? Looks for the file where the dynamic linker does first, without
 * loading it. When it is elsewhere, or is no library, tries to load it. */
bool lazy_is_there(const char *library);

#endif
