/* SPDX-License-Identifier: ISC */
#ifndef CORE_ERR_H
#define CORE_ERR_H

/* Errors: a code for programs and a sentence for people. A function that can fail returns an enum
 * err_code and fills the struct err of its caller. Any thread, each with its own struct err. */

#include <stddef.h>

/* The kinds of failure, from err.def: ERR_OK is 0, the others are positive. */
enum err_code {
#define ERR(id, name, number, exit_code, text) ERR_##id = number,
#include "core/err.def"
#undef ERR
};

/* One sentence for the person who must act: what failed, on which value or
 * file, and what to do. Filled by the function that found the fault. */
struct err {
	enum err_code code;
	char msg[600];
};

/* Fills e (which may be NULL) and returns code, so that a failing function can end in `return
 * err_set(e, ERR_IO, "...", ...)`. */
enum err_code err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As err_set, with ": " and the text of errno appended. */
enum err_code err_sys(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the message in e; returns e's code. */
enum err_code err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The documented exit code, the name ("notfound") and the general text of a
 * code. err_by_name returns ERR_FAILED for an unknown name. */
int err_exit_code(enum err_code code);
const char *err_name(enum err_code code);
const char *err_text(enum err_code code);
enum err_code err_by_name(const char *name);

#endif
