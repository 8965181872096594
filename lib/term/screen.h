#ifndef TERM_SCREEN_H
#define TERM_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* May text hold Braille and blocks?  By LC_ALL, LC_CTYPE and LANG, which become the program's
 * LC_CTYPE. */
bool term_unicode(void);
/* Is fd a terminal that can be drawn upon (and TERM is not "dumb")? */
bool term_draws(int fd);
/* Its size in characters; false, and 80 by 24, where there is none. */
bool term_size(int fd, unsigned *width, unsigned *height);

/* A full screen of characters on standard output, and keys from standard input.  It is
 * drawn in memory, and what has changed is written.  One screen a process, and one thread:
 * a process that crashes leaves the terminal as it found it. */
struct screen;

/* Attributes of text: a colour, and any of the others. */
enum {
	SCREEN_RED = 1, SCREEN_GREEN, SCREEN_YELLOW, SCREEN_BLUE, SCREEN_MAGENTA, SCREEN_CYAN, SCREEN_WHITE,
	SCREEN_COLOURS = 7,
	SCREEN_BOLD = 8, SCREEN_DIM = 16, SCREEN_REVERSE = 32,
};

/* Takes the terminal over; colours, unless NO_COLOR is set. */
enum err_code screen_open(struct screen **out, struct err *e);
/* Gives it back. */
void screen_close(struct screen *s);
/* To stop this process, and after it: given back, and taken again. */
void screen_leave(struct screen *s);
void screen_enter(struct screen *s);
/* The terminal has another size, perhaps. */
void screen_resize(struct screen *s);
unsigned screen_width(const struct screen *s);
unsigned screen_height(const struct screen *s);
bool screen_has_colours(const struct screen *s);
bool screen_is_unicode(const struct screen *s);

/* All blank, for the next picture. */
void screen_clear(struct screen *s);
/* Text from there on, in UTF-8; what does not fit is cut off, what is no plain character of
 * one column is "?".  Returns the column behind it. */
unsigned screen_put(struct screen *s, unsigned row, unsigned col, unsigned attr, const char *text);
unsigned screen_printf(struct screen *s, unsigned row, unsigned col, unsigned attr, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* The picture is whole: write what differs from the last one.  False: the terminal is gone. */
bool screen_show(struct screen *s);

enum screen_key {
	KEY_NONE,               /* no more for now */
	KEY_GONE,               /* nor ever */
	KEY_UP = 256, KEY_DOWN, KEY_LEFT, KEY_RIGHT, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_END, KEY_OTHER,
};
/* The next key that has been pressed: a character, or one of the above.  Does not wait. */
int screen_key(struct screen *s);

#endif
