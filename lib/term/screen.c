/* SPDX-License-Identifier: ISC */
#include "term/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "core/buf.h"
#include "core/mem.h"

/* Switch to the alternate screen without wrapping at the right edge and without a cursor; and
 * back. */
#define ENTER "\033[?1049h\033[?7l\033[?25l\033[2J"
#define LEAVE "\033[0m\033[?25h\033[?7h\033[?1049l"

struct cell {
	char text[5]; /* one character in UTF-8 */
	unsigned char attr;
};

struct screen {
	unsigned width, height;
	bool colours, unicode;
	bool inside, whole; /* whole: the terminal must be redrawn */
	struct cell *next, *shown;
	struct buf out;
	char in[32];
	size_t nin;
};

/* The terminal settings before we changed them, global for the signal handler. */
static struct termios before;
static volatile sig_atomic_t taken;

bool term_unicode(void)
{
	setlocale(LC_CTYPE, "");
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

bool term_draws(int fd)
{
	const char *term = getenv("TERM");

	return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool term_size(int fd, unsigned *width, unsigned *height)
{
	struct winsize ws;
	bool known = ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_col && ws.ws_row;

	*width = known ? ws.ws_col : 80;
	*height = known ? ws.ws_row : 24;
	return known;
}

/* ---- entering and leaving ---- */

static bool write_out(const char *text, size_t n)
{
	while (n) {
		ssize_t w = write(STDOUT_FILENO, text, n);

		if (w < 0 && errno != EINTR && errno != EAGAIN)
			return false;
		if (w < 0 && errno == EAGAIN)
			poll(&(struct pollfd){ STDOUT_FILENO, POLLOUT, 0 }, 1, -1);
		text += w > 0 ? w : 0;
		n -= w > 0 ? (size_t)w : 0;
	}
	return true;
}

static void restore_after_crash(int sig)
{
	ssize_t ignored = 0;

	if (taken) {
		ignored = write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
		tcsetattr(STDOUT_FILENO, TCSANOW, &before);
	}
	(void)ignored;
	raise(sig); /* SA_RESETHAND has restored the default action */
}

/* Keep handlers that a sanitizer has installed. */
static void install_crash_handlers(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	struct sigaction was,
	    act = { .sa_handler = restore_after_crash, .sa_flags = SA_RESETHAND | SA_NODEFER };

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		if (sigaction(signals[i], NULL, &was) == 0 && was.sa_handler == SIG_DFL)
			sigaction(signals[i], &act, NULL);
}

void screen_enter(struct screen *s)
{
	struct termios raw = before;

	if (s->inside)
		return;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_iflag &= ~(tcflag_t)(IXON);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	taken = 1;
	tcsetattr(STDOUT_FILENO, TCSADRAIN, &raw);
	write_out(ENTER, sizeof ENTER - 1);
	s->inside = s->whole = true;
}

void screen_leave(struct screen *s)
{
	if (!s->inside)
		return;
	write_out(LEAVE, sizeof LEAVE - 1);
	tcsetattr(STDOUT_FILENO, TCSADRAIN, &before);
	taken = 0;
	s->inside = false;
}

enum err_code screen_open(struct screen **out, struct err *e)
{
	const char *no_color = getenv("NO_COLOR");
	struct screen *s;

	if (!term_draws(STDOUT_FILENO) || tcgetattr(STDOUT_FILENO, &before))
		return err_set(e, ERR_USAGE, "standard output is not a terminal");
	s = mem_alloc(sizeof *s);
	s->colours = !no_color || !*no_color;
	s->unicode = term_unicode();
	install_crash_handlers();
	screen_resize(s);
	screen_enter(s);
	*out = s;
	return ERR_OK;
}

void screen_close(struct screen *s)
{
	if (!s)
		return;
	screen_leave(s);
	buf_release(&s->out);
	free(s->next);
	free(s->shown);
	free(s);
}

void screen_resize(struct screen *s)
{
	size_t n;

	term_size(STDOUT_FILENO, &s->width, &s->height);
	n = (size_t)s->width * s->height;
	free(s->next);
	free(s->shown);
	s->next = mem_array(n, sizeof *s->next);
	s->shown = mem_array(n, sizeof *s->shown);
	s->whole = true;
	screen_clear(s);
}

unsigned screen_width(const struct screen *s)
{
	return s->width;
}

unsigned screen_height(const struct screen *s)
{
	return s->height;
}

bool screen_has_colours(const struct screen *s)
{
	return s->colours;
}

bool screen_is_unicode(const struct screen *s)
{
	return s->unicode;
}

/* ---- the picture ---- */

void screen_clear(struct screen *s)
{
	for (size_t i = 0; i < (size_t)s->width * s->height; i++)
		s->next[i] = (struct cell){ " ", 0 };
}

/* An invalid byte is one "?" and the decoder starts again after it. Wide and combining characters
 * become "?" as well, since a cell is one column. */
unsigned screen_put(struct screen *s, unsigned row, unsigned col, unsigned attr, const char *text)
{
	mbstate_t state = { 0 };
	size_t left = strlen(text);

	while (left && row < s->height && col < s->width) {
		struct cell *c = &s->next[(size_t)row * s->width + col++];
		wchar_t w;
		size_t n = mbrtowc(&w, text, left, &state);
		bool plain = n <= left && n && n < sizeof c->text && wcwidth(w) == 1;

		if (n > left || !n) {
			n = 1;
			state = (mbstate_t){ 0 };
		}
		*c = (struct cell){ "?", (unsigned char)attr };
		if (plain) {
			memcpy(c->text, text, n);
			c->text[n] = '\0';
		}
		text += n;
		left -= n;
	}
	return col;
}

unsigned screen_printf(struct screen *s, unsigned row, unsigned col, unsigned attr, const char *fmt,
    ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return screen_put(s, row, col, attr, text);
}

static void put_attr(struct screen *s, unsigned attr)
{
	buf_puts(&s->out, "\033[0");
	if (attr & SCREEN_BOLD)
		buf_puts(&s->out, ";1");
	if (attr & SCREEN_DIM)
		buf_puts(&s->out, ";2");
	if (attr & SCREEN_REVERSE)
		buf_puts(&s->out, ";7");
	if (s->colours && attr & SCREEN_COLOURS)
		buf_printf(&s->out, ";3%u", attr & SCREEN_COLOURS);
	buf_puts(&s->out, "m");
}

/* Append the cells that differ from the shown screen, with as few cursor movements as possible. */
static void put_changes(struct screen *s)
{
	unsigned attr = 0;
	size_t at = SIZE_MAX; /* where the cursor is */

	for (size_t i = 0; i < (size_t)s->width * s->height; i++) {
		const struct cell *c = &s->next[i];

		if (!s->whole && strcmp(c->text, s->shown[i].text) == 0 &&
		    c->attr == s->shown[i].attr)
			continue;
		/* After the last column the cursor does not move on, because wrapping is off. */
		if (i != at || i % s->width == 0)
			buf_printf(&s->out, "\033[%zu;%zuH", i / s->width + 1, i % s->width + 1);
		if (c->attr != attr)
			put_attr(s, c->attr);
		attr = c->attr;
		buf_puts(&s->out, c->text);
		s->shown[i] = *c;
		at = i + 1;
	}
	if (attr)
		buf_puts(&s->out, "\033[0m");
}

bool screen_show(struct screen *s)
{
	buf_clear(&s->out);
	if (s->whole)
		buf_puts(&s->out, "\033[0m\033[2J");
	put_changes(s);
	s->whole = false;
	return !s->out.len || write_out((const char *)s->out.data, s->out.len);
}

/* ---- keys ---- */

static void consume_input(struct screen *s, size_t n)
{
	memmove(s->in, s->in + n, s->nin - n);
	s->nin -= n;
}

/* Read a key that is sent as an escape sequence, such as ESC [ A. A sequence is assumed to arrive
 * whole. */
static int read_escape_sequence(struct screen *s)
{
	static const struct {
		const char *text;
		int key;
	} known[] = {
		{ "\033[A", KEY_UP },
		{ "\033[B", KEY_DOWN },
		{ "\033[C", KEY_RIGHT },
		{ "\033[D", KEY_LEFT },
		{ "\033OA", KEY_UP },
		{ "\033OB", KEY_DOWN },
		{ "\033OC", KEY_RIGHT },
		{ "\033OD", KEY_LEFT },
		{ "\033[5~", KEY_PAGE_UP },
		{ "\033[6~", KEY_PAGE_DOWN },
		{ "\033[H", KEY_HOME },
		{ "\033[F", KEY_END },
		{ "\033[1~", KEY_HOME },
		{ "\033[4~", KEY_END },
	};
	size_t n = 2;

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		size_t len = strlen(known[i].text);

		if (s->nin >= len && memcmp(s->in, known[i].text, len) == 0) {
			consume_input(s, len);
			return known[i].key;
		}
	}
	/* Skip an unknown sequence: parameters, then one letter or "~". */
	while (n < s->nin && s->in[1] == '[' && s->in[n] < 0x40)
		n++;
	consume_input(s, n < s->nin ? n + 1 : s->nin);
	return KEY_OTHER;
}

/* Bytes that were read ahead are served first. An escape is a key of its own unless "[" or "O"
 * follows it. */
int screen_key(struct screen *s)
{
	struct pollfd p = { STDIN_FILENO, POLLIN, 0 };
	int key;

	if (!s->nin) {
		ssize_t n = 0;

		if (poll(&p, 1, 0) <= 0)
			return KEY_NONE;
		n = read(STDIN_FILENO, s->in, sizeof s->in);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			return KEY_NONE;
		if (n <= 0)
			return KEY_GONE;
		s->nin = (size_t)n;
	}
	if (s->in[0] == '\033' && s->nin > 1 && strchr("[O", s->in[1]))
		return read_escape_sequence(s);
	key = (unsigned char)s->in[0];
	consume_input(s, 1);
	return key ? key : KEY_OTHER;
}
