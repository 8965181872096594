/* SPDX-License-Identifier: ISC */
#ifndef DATA_UNSUPPORTED_H
#define DATA_UNSUPPORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "format/stream.h"

/* Recognizes files of unsupported formats by their first bytes, so that the message can say how to
 * make data of them. Pure. */

/* ERR_FORMAT: the n bytes at p, with which the stream begins, are such a file; the message says
 * what it is, and how to make data of it. */
enum err_code data_unsupported_refuse(const struct stream *s, const uint8_t *p, size_t n,
    struct err *e);

/* ERR_FORMAT: the lines of these bytes end in carriage returns alone, as on old Macs. */
enum err_code data_unsupported_refuse_lines(const struct stream *s, const uint8_t *p, size_t n,
    struct err *e);

/* Are these bytes text except for NUL bytes after the first line? *line: the line of the first
 * one. */
bool data_unsupported_has_nul(const uint8_t *p, size_t n, size_t *line);
/* Is one of these bytes a control byte that text does not have? *line and *byte: the first one. */
bool data_unsupported_has_control(const uint8_t *p, size_t n, size_t *line, uint8_t *byte);

#endif
