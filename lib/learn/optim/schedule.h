/* SPDX-License-Identifier: ISC */
#ifndef OPTIM_SCHEDULE_H
#define OPTIM_SCHEDULE_H

#include <stdint.h>

#include "core/err.h"

/* A schedule is a factor on the learning rate by step, counted from 0. schedule.def lists the text
 * forms. "warmup:100+cosine:900" ends at step 1000, because the schedule after a warm-up starts to
 * count where it ends. A warm-up of n steps gives 1/n, 2/n, ... 1. cosine: Loshchilov and Hutter,
 * SGDR, 2017, equation 5, one period. wsd: Hu et al., MiniCPM, 2024. */
enum schedule_kind {
#define SCHEDULE(name, form, help) SCHEDULE_##name,
#include "optim/schedule.def"
#undef SCHEDULE
};

struct schedule {
	enum schedule_kind kind; /* after the warm-up */
	uint64_t warmup;         /* steps, 0: none */
	uint64_t length;         /* step: EVERY, cosine: TOTAL, wsd: STABLE */
	uint64_t decay;          /* wsd */
	double value;            /* step: FACTOR, cosine: MIN */
};

/* Parses a schedule. It is plain data and may be copied. ERR_CONFIG leaves *s unchanged. */
enum err_code schedule_parse(const char *text, struct schedule *s, struct err *e);

/* 0 to 1, with the same bits on every machine. Any thread. */
double schedule_factor(const struct schedule *s, uint64_t step);

/* Name, form and help of the i-th kind; NULL past the last. */
const char *schedule_name(int i);
const char *schedule_form(int i);
const char *schedule_help(int i);

#endif
