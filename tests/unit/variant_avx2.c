/* SPDX-License-Identifier: ISC */
/* What the library has chosen for this processor against its code for AVX2, bit for bit. */
#include <stdio.h>

#if defined(__x86_64__)
#define VARIANT __attribute__((target("avx2")))
#include "variant_fixture.h"

int main(void)
{
	if (!__builtin_cpu_supports("avx2"))
		return skip_all("the processor has no AVX2");
	return variant_main();
}
#else
#include "tap.h"

int main(void)
{
	return skip_all("AVX2 is of x86-64");
}
#endif
