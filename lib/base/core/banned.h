/* SPDX-License-Identifier: ISC */
#ifndef CORE_BANNED_H
#define CORE_BANNED_H

/* The Makefile includes this in every file (-include), after the system headers that declare these
 * names: calls that cannot be used safely become errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BANNED(f) f is banned : see core / num.h, core / buf.h, core / rng.h
#undef strcpy
#define strcpy(a, b) BANNED(strcpy)
#undef strcat
#define strcat(a, b) BANNED(strcat)
#undef strncpy
#define strncpy(a, b, c) BANNED(strncpy)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(a, b, c) BANNED(vsprintf)
#undef strtok
#define strtok(a, b) BANNED(strtok)
#undef atoi
#define atoi(a) BANNED(atoi)
#undef atol
#define atol(a) BANNED(atol)
#undef atof
#define atof(a) BANNED(atof)
#undef gets
#define gets(a) BANNED(gets)
#undef rand
#define rand() BANNED(rand)
#undef srand
#define srand(a) BANNED(srand)

#endif
