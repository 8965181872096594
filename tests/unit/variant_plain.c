/* SPDX-License-Identifier: ISC */
/* What the library has chosen for this processor against plain code, bit for bit. */
#define VARIANT
#include "variant_fixture.h"

int main(void)
{
	return variant_main();
}
