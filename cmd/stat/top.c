/* SPDX-License-Identifier: ISC */
#include "cmd/stat/top.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cmd/stat/stat.h"
#include "core/clock.h"
#include "core/json.h"
#include "rundir/run_colour.h"

/* The loop, keys and signals of ps-stat top. */

/* Points that a curve keeps: more than it has dots. */
#define POINTS_MOST 8192
/* When the seconds of the job go back by at least this, it is another run; less is an overlap of
 * samples. */
#define ANOTHER_RUN 5

/* ---- samples ---- */

/* Add the loss and the speed of a status to the curves. */
static void add_curve_points(void *ctx, const json_t *status)
{
	struct top *t = ctx;
	struct series *both[] = { &t->loss, &t->speed };

	for (size_t i = 0; i < 2; i++) {
		struct series *s = both[i];
		double back = s->n ? s->x[s->n - 1] - json_num(status, "seconds", 0) : 0;

		/* A point that the file already had, or the start of another run. */
		if (back > 0 && back < ANOTHER_RUN)
			continue;
		if (back > 0)
			s->n = 0;
		if (s->n >= POINTS_MOST)
			past_series_thin(s);
		past_series_add(s, "seconds", status);
	}
}

/* Take a new sample from the feed. *samples counts the complete ones. */
static void take_new_sample(struct top *t, uint64_t *samples)
{
	struct sample s;

	if (!feed_take(t->feed, &s))
		return;
	t->fault = s.fault;
	if (s.fault.code) {
		feed_sample_release(&s);
		return;
	}
	stat_view_workers.derive(s.workers, t->now.workers);
	feed_sample_release(&t->before);
	t->before = t->now;
	t->now = s;
	add_curve_points(t, s.status);
	++*samples;
}

/* ---- keys ---- */

static void select_view(struct top *t, enum top_view v)
{
	t->view = v;
	t->scroll = 0;
	t->reverse = false;
}

static void move_sort_column(struct top *t, int by)
{
	size_t at = 0;

	while (at < t->ndrawn && t->drawn[at] != t->sort[t->view])
		at++;
	if (!t->ndrawn)
		return;
	at = at == t->ndrawn ? 0 : (at + t->ndrawn + (size_t)(by + (int)t->ndrawn)) % t->ndrawn;
	t->sort[t->view] = t->drawn[at];
}

static void scroll_rows(struct top *t, int by)
{
	t->scroll = (int)t->scroll + by > 0 ? (unsigned)((int)t->scroll + by) : 0;
}

/* Handle a key. False: leave. */
static bool handle_key(struct top *t, int key)
{
	static const char views[] = "wst";
	int page = (int)screen_height(t->screen) / 2;

	if (t->help && key != 'q') {
		t->help = false;
		return true;
	}
	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case '?':
	case 'h':
		t->help = true;
		break;
	case ' ':
		t->paused = !t->paused;
		feed_pause(t->feed, t->paused);
		break;
	case '\t':
	case 'v':
		select_view(t, (t->view + 1) % TOP_VIEWS);
		break;
	case 'w':
	case 's':
	case 't':
		select_view(t, (enum top_view)(strchr(views, key) - views));
		break;
	case '<':
	case KEY_LEFT:
		move_sort_column(t, -1);
		break;
	case '>':
	case KEY_RIGHT:
		move_sort_column(t, 1);
		break;
	case 'r':
		t->reverse = !t->reverse;
		break;
	case KEY_UP:
		scroll_rows(t, -1);
		break;
	case KEY_DOWN:
		scroll_rows(t, 1);
		break;
	case KEY_PAGE_UP:
		scroll_rows(t, -page);
		break;
	case KEY_PAGE_DOWN:
		scroll_rows(t, page);
		break;
	case KEY_HOME:
		t->scroll = 0;
		break;
	default:
		break;
	}
	return true;
}

/* ---- signals ---- */

static int open_top_signals(sigset_t *before)
{
	static const int taken[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		sigaddset(&set, taken[i]);
	sigprocmask(SIG_BLOCK, &set, before);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Handle the pending signals. Returns a signal that must end the program, or 0. */
static int handle_top_signals(struct top *t, int fd)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
		switch (info.ssi_signo) {
		case SIGWINCH:
			screen_resize(t->screen);
			break;
		case SIGTSTP:
			screen_leave(t->screen);
			kill(getpid(), SIGSTOP);
			screen_enter(t->screen);
			screen_resize(t->screen);
			break;
		case SIGCONT:
			screen_enter(t->screen);
			break;
		default:
			return (int)info.ssi_signo;
		}
	return 0;
}

/* ---- the loop ---- */

/* Draw until q, the number of samples or a signal ends it. Returns the signal, or 0. */
static int run_screen_loop(struct top *t, int signals)
{
	struct pollfd p[] = { { STDIN_FILENO, POLLIN, 0 }, { signals, POLLIN, 0 },
		{ feed_fd(t->feed), POLLIN, 0 } };
	uint64_t samples = 0;
	int sig = 0, key;

	while (!sig && top_draw(t)) {
		if (t->plan->count && samples >= t->plan->count)
			return 0;
		poll(p, 3, 1000);
		if (p[0].revents)
			while ((key = screen_key(t->screen)) != KEY_NONE) {
				if (key == KEY_GONE)
					p[0].fd = -1;
				if (key == KEY_GONE)
					break;
				if (!handle_key(t, key))
					return 0;
			}
		if (p[1].revents)
			sig = handle_top_signals(t, signals);
		if (p[2].revents)
			take_new_sample(t, &samples);
	}
	return sig;
}

/* Take the colour of the run, and fill the curves from its metrics.jsonl. */
static void read_past_points(struct top *t, const char *dir)
{
	struct past *past;

	if (dir)
		t->run_colour = run_colour[run_colour_of(dir)].terminal;
	if (!dir || past_open(dir, &past, NULL))
		return;
	past_read_rows(past, add_curve_points, t);
	past_close(past);
}

/* Run the full screen until it is left. Returns the exit code. */
static int run_screen(struct top *t)
{
	const char *dir = NULL;
	sigset_t before;
	struct err e = { 0 };
	int sig = 0, signals = open_top_signals(&before);

	if (feed_start(t->plan, t->interval, &t->feed, &dir, &e) || screen_open(&t->screen, &e)) {
		fprintf(stderr, "ps-stat: %s\n", e.msg);
	} else {
		read_past_points(t, dir);
		t->now.at = clock_now();
		sig = run_screen_loop(t, signals);
	}
	screen_close(t->screen);
	feed_stop(t->feed);
	close(signals);
	sigprocmask(SIG_SETMASK, &before, NULL);
	/* End by the signal, as the default action would. */
	if (sig)
		raise(sig);
	return err_exit_code(e.code);
}

static int run_top(const struct plan *p)
{
	const char *sort = p->options->sort ? p->options->sort : "slow";
	struct top t = { .plan = p,
		.interval = p->interval ? p->interval : NSEC_PER_SEC,
		.run_colour = SCREEN_CYAN };
	struct plan plain;
	int code;

	t.sort[TOP_WORKERS] = plan_column(&stat_view_workers, sort, strlen(sort));
	if (!t.sort[TOP_WORKERS])
		return plan_usage("workers has no column \"%s\" to sort by", sort);
	if (!term_draws(STDOUT_FILENO) || p->style.format != FORMAT_TABLE) {
		plan_for_view(p, &stat_view_workers, &plain);
		plain.sort = t.sort[TOP_WORKERS];
		return stream_run(&plain);
	}
	past_series_init(&t.loss, "loss");
	past_series_init(&t.speed, "examples_per_second");
	code = run_screen(&t);
	feed_sample_release(&t.now);
	feed_sample_release(&t.before);
	past_series_release(&t.loss);
	past_series_release(&t.speed);
	return code;
}

const struct stat_view stat_view_top = {
	.name = "top",
	.help = "the full screen: slow workers, and the parts of their time",
	.run = run_top,
};
