/* SPDX-License-Identifier: ISC */
#include "data/batch.h"

/* Safe for a batch of zeroes and for one released before. */
void batch_release(struct batch *b)
{
	free(b->x);
	free(b->start);
	free(b->field);
	free(b->col);
	free(b->val);
	free(b->id);
	free(b->y);
	free(b->label);
	*b = (struct batch){ 0 };
}
