/* SPDX-License-Identifier: ISC */
#include "tests/fault/ledger.h"

void ledger_note_pull(const struct ledger_pull *p)
{
	(void)p;
}

void ledger_note_push(uint32_t rank, uint64_t incarnation, uint64_t step, float before)
{
	(void)rank;
	(void)incarnation;
	(void)step;
	(void)before;
}

void ledger_note_model(uint32_t ranks, uint32_t cells, const float *dense)
{
	(void)ranks;
	(void)cells;
	(void)dense;
}
