#include "cmd/stat/top.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cmd/stat/stat.h"

/* ps-stat top: the full screen. */

/* More points than a curve has dots. */
#define POINTS_MOST 8192
/* Seconds: by less the clocks of two answers do not differ. */
#define ANOTHER_RUN 5

/* ---- what comes in ------------------------------------------------------------------------- */

static void add_points(void *ctx, const json_t *status)
{
	struct top *t = ctx;
	struct series *both[] = { &t->loss, &t->speed };

	for (size_t i = 0; i < 2; i++) {
		struct series *s = both[i];
		double back = s->n ? s->x[s->n - 1] - json_num(status, "seconds", 0) : 0;

		/* Known from the file already; or it is another run. */
		if (back > 0 && back < ANOTHER_RUN)
			continue;
		if (back > 0)
			s->n = 0;
		if (s->n >= POINTS_MOST)
			series_thin(s);
		series_add(s, "seconds", status);
	}
}

static void take_sample(struct top *t, uint64_t *samples)
{
	struct sample s;

	if (!feed_take(t->feed, &s))
		return;
	t->fault = s.fault;
	if (s.fault.code) {
		sample_release(&s);
		return;
	}
	stat_view_workers.derive(s.workers, t->now.workers);
	sample_release(&t->before);
	t->before = t->now;
	t->now = s;
	add_points(t, s.status);
	++*samples;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static void show_view(struct top *t, enum top_view v)
{
	t->view = v;
	t->scroll = 0;
	t->reverse = false;
}

static void move_sort(struct top *t, int by)
{
	size_t at = 0;

	while (at < t->ndrawn && t->drawn[at] != t->sort[t->view])
		at++;
	if (!t->ndrawn)
		return;
	at = at == t->ndrawn ? 0 : (at + t->ndrawn + (size_t)(by + (int)t->ndrawn)) % t->ndrawn;
	t->sort[t->view] = t->drawn[at];
}

static void move_rows(struct top *t, int by)
{
	t->scroll = (int)t->scroll + by > 0 ? (unsigned)((int)t->scroll + by) : 0;
}

/* False: to leave. */
static bool press(struct top *t, int key)
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
		show_view(t, (t->view + 1) % TOP_VIEWS);
		break;
	case 'w':
	case 's':
	case 't':
		show_view(t, (enum top_view)(strchr(views, key) - views));
		break;
	case '<':
	case KEY_LEFT:
		move_sort(t, -1);
		break;
	case '>':
	case KEY_RIGHT:
		move_sort(t, 1);
		break;
	case 'r':
		t->reverse = !t->reverse;
		break;
	case KEY_UP:
		move_rows(t, -1);
		break;
	case KEY_DOWN:
		move_rows(t, 1);
		break;
	case KEY_PAGE_UP:
		move_rows(t, -page);
		break;
	case KEY_PAGE_DOWN:
		move_rows(t, page);
		break;
	case KEY_HOME:
		t->scroll = 0;
		break;
	default:
		break;
	}
	return true;
}

/* ---- signals ------------------------------------------------------------------------------- */

static int open_signals(sigset_t *before)
{
	static const int taken[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		sigaddset(&set, taken[i]);
	sigprocmask(SIG_BLOCK, &set, before);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The one to end by; 0: none of those. */
static int take_signals(struct top *t, int fd)
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

/* ---- the loop ------------------------------------------------------------------------------ */

/* Until q, the count, or a signal, which is returned. */
static int watch(struct top *t, int signals)
{
	struct pollfd p[] = { { STDIN_FILENO, POLLIN, 0 }, { signals, POLLIN, 0 }, { feed_fd(t->feed), POLLIN, 0 } };
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
				if (!press(t, key))
					return 0;
			}
		if (p[1].revents)
			sig = take_signals(t, signals);
		if (p[2].revents)
			take_sample(t, &samples);
	}
	return sig;
}

/* What was before we came. */
static void read_past(struct top *t, const char *dir)
{
	struct past *past;

	if (!dir || past_open(dir, &past, NULL))
		return;
	past_read(past, add_points, t);
	past_close(past);
}

static int show(struct top *t)
{
	const char *dir = NULL;
	sigset_t before;
	struct err e = { 0 };
	int sig = 0, signals = open_signals(&before);

	if (feed_start(t->plan, t->interval, &t->feed, &dir, &e) || screen_open(&t->screen, &e)) {
		fprintf(stderr, "ps-stat: %s\n", e.msg);
	} else {
		read_past(t, dir);
		t->now.at = clock_now();
		sig = watch(t, signals);
	}
	screen_close(t->screen);
	feed_stop(t->feed);
	close(signals);
	sigprocmask(SIG_SETMASK, &before, NULL);
	/* Ended as if it had been there with no handler. */
	if (sig)
		raise(sig);
	return err_exit_code(e.code);
}

static int run(const struct plan *p)
{
	const char *sort = p->options->sort ? p->options->sort : "slow";
	struct top t = { .plan = p, .interval = p->interval ? p->interval : NSEC_PER_SEC };
	struct plan plain;
	int code;

	t.sort[TOP_WORKERS] = view_column(&stat_view_workers, sort, strlen(sort));
	if (!t.sort[TOP_WORKERS])
		return plan_usage("workers has no column \"%s\" to sort by", sort);
	if (!term_draws(STDOUT_FILENO) || p->style.format != FORMAT_TABLE) {
		plan_for_view(p, &stat_view_workers, &plain);
		plain.sort = t.sort[TOP_WORKERS];
		return stream_run(&plain);
	}
	series_init(&t.loss, "loss");
	series_init(&t.speed, "examples_per_second");
	code = show(&t);
	sample_release(&t.now);
	sample_release(&t.before);
	series_release(&t.loss);
	series_release(&t.speed);
	return code;
}

const struct stat_view stat_view_top = {
	.name = "top", .help = "the full screen: who is slow, where the time goes", .run = run,
};
