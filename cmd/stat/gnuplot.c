/* SPDX-License-Identifier: ISC */
#include "cmd/stat/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/spawn.h"

#define WIDTH  900
#define HEIGHT 320

/* Write text as a quoted string of gnuplot. */
static void put_gnuplot_string(struct buf *out, const char *text)
{
	buf_puts(out, "'");
	for (; *text; text++)
		buf_printf(out,
		    *text == '\''                     ? "''"
		        : (unsigned char)*text < 0x20 ? "?"
		                                      : "%c",
		    *text);
	buf_puts(out, "'");
}

static void put_series(struct buf *out, const struct series *s)
{
	buf_puts(out, "set ylabel ");
	put_gnuplot_string(out, strcmp(s->name, "loss") == 0 ? "training loss" : s->name);
	buf_puts(out, "\nplot '-' with lines linewidth 2 notitle\n");
	for (size_t i = 0; i < s->n; i++) {
		/* An empty line is a gap. */
		if (isfinite(s->x[i]) && isfinite(s->y[i]))
			buf_printf(out, "%.17g %.17g\n", s->x[i], s->y[i]);
		else
			buf_puts(out, "\n");
	}
	buf_puts(out, "e\n");
}

static void put_script(struct buf *out, const struct series *s, size_t n, const char *across,
    const char *format)
{
	buf_printf(out, "set terminal %s size %d,%zu noenhanced background rgb 'white'\n",
	    strcmp(format, "svg") == 0 ? "svg" : "pngcairo", WIDTH, HEIGHT * n);
	buf_printf(out, "set multiplot layout %zu,1\nset grid\nset xlabel ", n);
	put_gnuplot_string(out, across);
	buf_puts(out, "\n");
	for (size_t i = 0; i < n; i++)
		put_series(out, &s[i]);
	buf_puts(out, "unset multiplot\n");
}

static bool all_have_values(const struct series *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < s[i].n && !(isfinite(s[i].x[k]) && isfinite(s[i].y[k])))
			k++;
		if (k == s[i].n)
			return false;
	}
	return true;
}

/* gnuplot writes the picture to our standard output, which it inherits. ERR_NOTREADY: some series
 * has no values yet; ERR_NOTFOUND: gnuplot is not installed. */
enum err_code gnuplot_write(const struct series *s, size_t n, const char *across,
    const char *format, struct err *e)
{
	char *argv[] = { (char *)(uintptr_t) "gnuplot", NULL };
	struct buf script = BUF_INIT;
	int fd[2], fault, status = 0;
	enum err_code rc;
	pid_t pid;

	if (!all_have_values(s, n))
		return err_set(e, ERR_NOTREADY, "there are no values to plot yet");
	if (pipe2(fd, O_CLOEXEC))
		return err_sys(e, ERR_FAILED, "cannot create a pipe");
	fault = spawn_tool(argv[0], argv, NULL, (const int[]){ fd[0], -1, -1 }, false, &pid);
	close(fd[0]);
	if (fault) {
		close(fd[1]);
		return fault == ENOENT
		    ? err_set(e, ERR_NOTFOUND,
		          "svg and png require gnuplot, which is not installed: apt install gnuplot-nox")
		    : err_set(e, ERR_FAILED, "cannot run gnuplot: %s", strerrordesc_np(fault));
	}
	put_script(&script, s, n, across, format);
	rc = file_write_all(fd[1], script.data, script.len, e);
	close(fd[1]);
	buf_release(&script);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	/* gnuplot has printed the reason itself. */
	if (status)
		return err_set(e, ERR_FAILED, "gnuplot has failed");
	return rc;
}
