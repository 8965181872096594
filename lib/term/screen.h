/* SPDX-License-Identifier: ISC */
#ifndef TERM_SCREEN_H
#define TERM_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

/* The terminal: what it can show, and a full screen of characters with keys from standard input.
 * A screen is drawn in memory, and screen_show() writes only what has changed.
 *
 *   left      screen_open, screen_enter   entered     raw keys, alternate screen
 *   entered   screen_leave, screen_close  left        the terminal is restored
 *   entered   a crash (SIGSEGV, ...)      left        restored by a signal handler
 *
 * There is one screen in a process, used by one thread: the saved terminal settings are global. */

/* Can text contain Braille and block characters? Sets the program's LC_CTYPE from LC_ALL,
 * LC_CTYPE and LANG. */
bool term_unicode(void);
/* Is fd a terminal that can be drawn on, with a TERM other than "dumb"? */
bool term_draws(int fd);
/* The size of the terminal fd in characters; false, and 80 by 24, when it is unknown. */
bool term_size(int fd, unsigned *width, unsigned *height);

struct screen;

/* Attributes of text: one colour, and any of the others. */
enum {
	SCREEN_RED = 1,
	SCREEN_GREEN,
	SCREEN_YELLOW,
	SCREEN_BLUE,
	SCREEN_MAGENTA,
	SCREEN_CYAN,
	SCREEN_WHITE,
	SCREEN_COLOURS = 7,
	SCREEN_BOLD = 8,
	SCREEN_DIM = 16,
	SCREEN_REVERSE = 32,
};

/* Enter the full screen; with colours unless NO_COLOR is set. ERR_USAGE: standard output is no
 * terminal. */
enum err_code screen_open(struct screen **out, struct err *e);
/* Restore the terminal, and free the screen. */
void screen_close(struct screen *s);
/* Restore the terminal before this process is stopped, and enter the screen again after it. */
void screen_leave(struct screen *s);
void screen_enter(struct screen *s);
/* Read the terminal's size again, and clear the screen. */
void screen_resize(struct screen *s);
/* Properties of the screen; sizes in characters. */
unsigned screen_width(const struct screen *s);
unsigned screen_height(const struct screen *s);
bool screen_has_colours(const struct screen *s);
bool screen_is_unicode(const struct screen *s);

/* Fill the screen in memory with blanks. */
void screen_clear(struct screen *s);
/* Put UTF-8 text at a position. It is cut at the right edge; a character that is not printable in
 * one column becomes "?". Returns the column after the text. */
unsigned screen_put(struct screen *s, unsigned row, unsigned col, unsigned attr, const char *text);
unsigned screen_printf(struct screen *s, unsigned row, unsigned col, unsigned attr, const char *fmt,
    ...) __attribute__((format(printf, 5, 6)));
/* Write what differs from the last shown screen. False: the terminal is gone. */
bool screen_show(struct screen *s);

enum screen_key {
	KEY_NONE, /* no key is waiting */
	KEY_GONE, /* the input has ended */
	KEY_UP = 256,
	KEY_DOWN,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_HOME,
	KEY_END,
	KEY_OTHER,
};
/* The next key that was pressed: a character, or one of enum screen_key. Does not block. */
int screen_key(struct screen *s);

#endif
