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

/* The fault that a person has to mend, from cause.def. CAUSE_UNKNOWN is 0: the sentence alone says
 * it. */
enum err_cause {
#define CAUSE(id, name) CAUSE_##id,
#include "core/cause.def"
#undef CAUSE
};

/* One sentence for the person who must act: what failed, on which value or
 * file, and what to do. Filled by the function that found the fault. */
struct err {
	enum err_code code;
	enum err_cause cause;
	char msg[600];
};

/* Fills e (which may be NULL) and returns code, so that a failing function can end in `return
 * err_set(e, ERR_IO, "...", ...)`. The cause is the usual one of the code. */
enum err_code err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As err_set, with ": " and the text of errno appended, and the cause that errno stands for. */
enum err_code err_sys(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Fills e as err_set does, for a failure with a known cause. */
enum err_code err_because(struct err *e, enum err_code code, enum err_cause cause, const char *fmt,
    ...) __attribute__((format(printf, 4, 5)));

/* Gives the error in e (which may be NULL) this cause unless it has one; returns e's code. */
enum err_code err_blame(struct err *e, enum err_cause cause);

/* The name of a cause ("no-space"; "" for CAUSE_UNKNOWN), and the cause of a name. A name that is
 * not known here gives CAUSE_UNKNOWN: a later version may have sent it. */
const char *err_cause_name(enum err_cause cause);
enum err_cause err_cause_by_name(const char *name);

/* Copies the whole error `from` into e (which may be NULL); returns its code. */
enum err_code err_pass(struct err *e, const struct err *from);

/* Puts "prefix: " before the message in e; returns e's code. */
enum err_code err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints "PROGRAM: sentence" to standard error; returns the exit code. A process whose log another
 * one reads (err_tag_children) prints "PROGRAM[cause]: sentence" if the cause is known. */
int err_report(const char *program, const struct err *e);
/* From now on the processes that this one starts name causes in err_report. Call it before threads
 * exist. */
void err_tag_children(void);

/* The documented exit code, the name ("notfound") and the general text of a
 * code. err_by_name returns ERR_FAILED for an unknown name. */
int err_exit_code(enum err_code code);
const char *err_name(enum err_code code);
const char *err_text(enum err_code code);
enum err_code err_by_name(const char *name);

#endif
