/* SPDX-License-Identifier: ISC */
/* An OpenBLAS that is older than the processor, by LD_PRELOAD: with BLAS_CORE=NAME it tells that it has
 * chosen the kernels of NAME, unless OPENBLAS_CORETYPE is set.
 *
 * Not for programs with sanitizers, which begin by calling dlsym: RTLD_NEXT would mean what comes after
 * this library, and give them their own functions. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* glibc's dlsym, which this file replaces. */
static __typeof__(&dlsym) real_dlsym(void)
{
	static __typeof__(&dlsym) found;

	if (!found)
		found = (__typeof__(&dlsym))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!found)
		abort();
	return found;
}

static char *blas_core(void)
{
	return getenv("BLAS_CORE");
}

/* Programs find OpenBLAS's functions by dlsym. RTLD_NEXT of another library means what comes after
 * this one. */
void *dlsym(void *restrict handle, const char *restrict name)
{
	if (strcmp(name, "openblas_get_corename") == 0 && blas_core() &&
	    !getenv("OPENBLAS_CORETYPE"))
		return (void *)blas_core;
	return real_dlsym()(handle, name);
}
