/* SPDX-License-Identifier: ISC */
#include "worker/program.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/plain.h"
#include "core/spawn.h"
#include "worker/program_files.h"
#include "worker/program_rows.h"

/* Restarts in a row before the worker gives up. */
#define AGAIN          3
#define LINE_MAX_BYTES 4096u
#define LOOK_MS        100
/* The end of its standard error, in which the last line is looked for. */
#define LAST_WORDS_BYTES 4096
/* How long the program may run on after its stdin was closed. */
#define GRACE (2 * NSEC_PER_SEC)

struct program {
	struct program_config cfg;
	struct model_outside outside;
	const struct job *job;
	struct program_files files;
	pid_t pid;         /* 0: none */
	off_t stderr_from; /* length of the file of standard error at its start; -1: it is none */
	int to, from;      /* pipes to its stdin and from its stdout */
	char said[LINE_MAX_BYTES]; /* bytes read from it and not yet parsed */
	size_t nsaid;
	uint64_t step;
	/* Rows of sparse tables that the program has named; NULL: there are no such tables. there:
	 * the list whose ids the .ids files hold now. */
	struct params_rows *of_step, *of_eval;
	const struct params_rows *there;
	struct err fault;
};

static double ask_gradient(void *ctx, const struct batch *b, const float *const params[],
    float *const grads[]);

/* ---- its life ---- */

/* The path of the data as one word of a line; "-" when it is not one path without blanks. */
static const char *data_path_word(const struct program *p)
{
	const struct conf_strs *conf = &p->job->conf.job.data;
	size_t n = p->cfg.ndata ? p->cfg.ndata : conf->n;
	const char *path = n != 1 ? "-" : p->cfg.ndata ? p->cfg.data[0] : conf->item[0];

	return strpbrk(path, " \t\n") ? "-" : path;
}

static json_t *json_of_strings(const char *const *item, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(item[i]));
	return list;
}

static enum err_code write_question_line(struct program *p, const char *line, struct err *e)
{
	return file_write_all(p->to, line, strlen(line), e);
}

/* Sends the program one line of JSON with the facts that it needs before the first step. */
static enum err_code send_introduction(struct program *p, struct err *e)
{
	const struct conf_job *c = &p->job->conf.job;
	json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:I, s:I}", "v", 1, "kind",
	    "tables", "worker", p->cfg.name, "dir", p->files.dir, "tables",
	    program_files_json(&p->files), "data",
	    p->cfg.ndata ? json_of_strings(p->cfg.data, p->cfg.ndata)
	                 : json_of_strings((const char *const *)c->data.item, c->data.n),
	    "eval", json_of_strings((const char *const *)c->eval.item, c->eval.n), "examples",
	    (json_int_t)p->job->train->rows, "batch", (json_int_t)c->batch, "seed",
	    (json_int_t)c->seed);
	char *text = json_text(o), *line = mem_printf("%s\n", text);
	enum err_code rc = write_question_line(p, line, e);

	free(line);
	free(text);
	json_decref(o);
	return rc;
}

static void close_pipe(int pipe[2])
{
	for (int i = 0; i < 2; i++)
		if (pipe[i] >= 0)
			close(pipe[i]);
}

/* The length of the file that standard error goes to; -1: it is not a file. */
static off_t stderr_length(void)
{
	struct stat st;

	return fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : -1;
}

/* Is this a line of our own log, "2026-01-31T10:00:00.000 NAME ..."? */
static bool is_our_line(const char *line, size_t n)
{
	return n > 20 && strspn(line, "0123456789-") == 10 && line[10] == 'T';
}

/* Writes the last line that the program has written to standard error, if that goes to a file; else
 * "". */
static void find_last_words(const struct program *p, char out[static 200])
{
	char text[LAST_WORDS_BYTES + 1];
	off_t length = stderr_length(), from = length - LAST_WORDS_BYTES;
	int fd = p->stderr_from >= 0 && length > p->stderr_from
	    ? open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC)
	    : -1;
	ssize_t n;

	out[0] = 0;
	if (fd < 0)
		return;
	from = from > p->stderr_from ? from : p->stderr_from;
	n = pread(fd, text, LAST_WORDS_BYTES, from);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	for (char *line = text, *end; *line; line = *end ? end + 1 : end) {
		end = strchrnul(line, '\n');
		if (end > line + strspn(line, " \t\r") && !is_our_line(line, (size_t)(end - line)))
			snprintf(out, 200, "%.*s", (int)(end - line), line);
	}
	plain_text(out);
}

/* Starts the program with pipes to its stdin and from its stdout, and introduces itself. */
static enum err_code start_program_process(struct program *p, struct err *e)
{
	char *dir = mem_printf("PSKIT_DIR=%s", p->files.dir),
	     *worker = mem_printf("PSKIT_WORKER=%s", p->cfg.name);
	char *argv[] = { (char *)(uintptr_t) "/usr/bin/env", dir, worker,
		(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
		(char *)(uintptr_t)p->cfg.command, NULL };
	int to[2] = { -1, -1 }, from[2] = { -1, -1 };
	int theirs[2];
	/* The program is in our process group, so that a signal to the group ends it, too. */
	struct launch_spec spec = { .id = "the program",
		.argv = argv,
		.die_with_parent = true,
		.same_group = true,
		.pipes = theirs };
	enum err_code rc = ERR_OK;

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		rc = err_sys(e, ERR_IO, "cannot start the program: pipe");
	theirs[0] = to[0];
	theirs[1] = from[1];
	p->stderr_from = stderr_length();
	if (!rc)
		rc = spawn(&spec, &p->pid, NULL, e);
	free(dir);
	free(worker);
	if (rc) {
		p->pid = 0;
		close_pipe(to);
		close_pipe(from);
		return rc;
	}
	close(to[0]);
	close(from[1]);
	p->to = to[1];
	p->from = from[0];
	p->nsaid = 0;
	p->there = NULL;
	return send_introduction(p, e);
}

/* Kills and reaps the processes that the program started and left behind; they have become our
 * children. */
static void kill_orphans(void)
{
	char *path = mem_printf("/proc/self/task/%d/children", (int)getpid());

	for (;;) {
		char *at, *end;
		FILE *f = fopen(path, "re");
		char line[4096] = "";

		if (!f)
			break;
		if (!fgets(line, sizeof line, f))
			line[0] = 0;
		fclose(f);
		for (at = line; *at; at = end) {
			pid_t pid = (pid_t)strtol(at, &end, 10);

			if (end == at)
				break;
			kill(pid, SIGKILL);
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
		if (at == line)
			break;
	}
	free(path);
}

/* Waits for the program for `grace`, then kills it; also kills what it has started. *status as of
 * waitpid. */
static void reap_program(struct program *p, int64_t grace, int *status)
{
	struct pollfd end = { pidfd_open(p->pid, 0), POLLIN, 0 };

	close(p->to);
	close(p->from);
	if (end.fd < 0 || poll(&end, 1, clock_poll_timeout(grace)) <= 0)
		kill(p->pid, SIGKILL);
	if (end.fd >= 0)
		close(end.fd);
	while (waitpid(p->pid, status, 0) < 0 && errno == EINTR)
		;
	p->pid = 0;
	kill_orphans();
}

/* The program has closed its stdout or does not read: ends it. ERR_CLOSED with how it ended. */
static enum err_code report_death(struct program *p, struct err *e)
{
	char how[64] = "ended", what[40], last[200];
	int status = 0;

	snprintf(what, sizeof what, "at step %llu", (unsigned long long)p->step);
	reap_program(p, GRACE, &status);
	if (WIFSIGNALED(status))
		snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(status));
	else if (WIFEXITED(status))
		snprintf(how, sizeof how, "ended with exit code %d", WEXITSTATUS(status));
	find_last_words(p, last);
	return err_set(e, ERR_CLOSED, "the program (%.200s) %s %s%s%s%s", p->cfg.command, how, what,
	    *last ? ", after the line \"" : "", last, *last ? "\"" : "");
}

struct program *program_new(const struct program_config *cfg)
{
	struct program *p = mem_alloc(sizeof *p);

	p->cfg = *cfg;
	p->outside = (struct model_outside){ p, ask_gradient };
	return p;
}

enum err_code program_begin(struct program *p, const struct job *job, struct err *e)
{
	enum err_code rc;

	p->job = job;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	rc = program_files_open(job, &p->files, e);
	if (!rc) {
		p->of_step = program_rows_new(&p->files);
		p->of_eval = program_rows_new(&p->files);
		rc = start_program_process(p, e);
	}
	return rc == ERR_IO && p->pid ? report_death(p, e) : rc;
}

void program_free(struct program *p)
{
	int status;

	if (!p)
		return;
	if (p->pid)
		reap_program(p, GRACE, &status);
	if (p->files.dir) {
		program_rows_free(&p->files, p->of_step);
		program_rows_free(&p->files, p->of_eval);
		program_files_close(&p->files);
	}
	free(p);
}

/* ---- questions and answers ---- */

/* Reads the next line of the program's output, without its end. May call cfg.attend while it
 * waits. */
static enum err_code read_line(struct program *p, char line[static LINE_MAX_BYTES], struct err *e)
{
	for (;;) {
		char *end = memchr(p->said, '\n', p->nsaid);
		struct pollfd f = { p->from, POLLIN, 0 };
		ssize_t n;

		if (end) {
			size_t len = (size_t)(end - p->said);

			memcpy(line, p->said, len);
			line[len] = 0;
			p->nsaid -= len + 1;
			memmove(p->said, end + 1, p->nsaid);
			return ERR_OK;
		}
		if (p->nsaid == sizeof p->said)
			return err_set(e, ERR_FORMAT,
			    "the program sent a line of more than %u bytes", LINE_MAX_BYTES);
		if (poll(&f, 1, LOOK_MS) < 0 && errno != EINTR)
			return err_sys(e, ERR_IO, "poll");
		if (!f.revents) {
			if (p->cfg.attend && p->cfg.attend(p->cfg.ctx, e))
				return e->code;
			continue;
		}
		n = read(p->from, p->said + p->nsaid, sizeof p->said - p->nsaid);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return report_death(p, e);
		p->nsaid += (size_t)n;
	}
}

/* Parses "loss 0.31 examples 64 ..." into *r, and sets `has` for what is there; unknown names are
 * ignored. */
static enum err_code parse_numbers(char *at, struct eval_result *r, struct err *e)
{
	char *save, *name = strtok_r(at, " \t\r", &save), *value;

	for (; name; name = strtok_r(NULL, " \t\r", &save)) {
		enum metric k = metrics_find(name);
		char *end;

		value = strtok_r(NULL, " \t\r", &save);
		if (!value)
			return err_set(e, ERR_FORMAT, "the program sent \"%.40s\" without a number",
			    name);
		if (strcmp(name, "examples") == 0 && !num_uint(value, UINT64_MAX, &r->examples))
			return err_set(e, ERR_FORMAT,
			    "the program sent \"examples %.40s\", which is not a count", value);
		if (k == METRICS)
			continue;
		/* NaN is accepted here: the worker fails the job for it with a message of its
		 * own. */
		r->value[k] = num_strtod(value, &end);
		r->has[k] = true;
		if (*end || end == value)
			return err_set(e, ERR_FORMAT,
			    "the program sent \"%s %.40s\", which is not a number", name, value);
	}
	return ERR_OK;
}

/* A question: its line, and the parameters (of these rows) that it needs in the files; params NULL:
 * it asks which rows are needed. */
struct question {
	const char *line;
	const struct params_rows *rows;
	const float *const *params;
};

/* Reads "ok ..." or "error TEXT". says: the text after "ok". */
static enum err_code read_answer(struct program *p, const struct question *q,
    char says[static LINE_MAX_BYTES], struct err *e)
{
	enum err_code rc = read_line(p, says, e);

	if (rc)
		return rc;
	if (strcmp(says, "ok") == 0 || strncmp(says, "ok ", 3) == 0) {
		memmove(says, says + 2, strlen(says + 2) + 1);
		return ERR_OK;
	}
	if (strncmp(says, "error", 5) == 0 && (!says[5] || says[5] == ' '))
		return err_set(e, ERR_NOTREADY, "the program reports an error at step %llu: %.400s",
		    (unsigned long long)p->step, says[5] ? says + 6 : "error");
	return err_set(e, ERR_FORMAT,
	    "the program answered \"%.200s\", expected \"ok %s\" or \"error TEXT\"", says,
	    q->params ? "loss NUMBER examples NUMBER" : "rows TABLE NUMBER ...");
}

/* Writes the parameters of this question. Also writes the ids again when the files hold the ids of
 * another question or of a program that has died. */
static enum err_code write_question_files(struct program *p, const struct question *q,
    struct err *e)
{
	enum err_code rc = q->rows && p->there != q->rows
	    ? program_rows_write(&p->files, q->rows, e)
	    : ERR_OK;

	p->there = q->rows;
	return rc ? rc : program_files_write_params(&p->files, q->rows, q->params, e);
}

/* Asks once; starts the program if it does not run. ERR_CLOSED: it died. */
static enum err_code ask_without_restart(struct program *p, const struct question *q,
    char says[static LINE_MAX_BYTES], struct err *e)
{
	enum err_code rc = p->pid ? ERR_OK : start_program_process(p, e);

	if (!rc && q->params)
		rc = write_question_files(p, q, e);
	if (rc)
		return rc;
	return write_question_line(p, q->line, e) ? report_death(p, e) : read_answer(p, q, says, e);
}

/* Asks; when the program dies, starts it again and asks again. */
static enum err_code ask_with_restart(struct program *p, const struct question *q,
    char says[static LINE_MAX_BYTES], struct err *e)
{
	for (unsigned i = 0;; i++) {
		enum err_code rc = ask_without_restart(p, q, says, e);
		struct err why = { 0 };

		if (rc != ERR_CLOSED)
			return rc;
		/* An interrupt from the terminal has reached both: this is not a failure of the
		 * program. */
		if (p->cfg.attend && p->cfg.attend(p->cfg.ctx, &why))
			return err_pass(e, &why);
		if (i == AGAIN)
			return err_because(e, ERR_NOTREADY, e->cause,
			    "%.500s; it was restarted %u times", e->msg, AGAIN);
		atomic_fetch_add(p->cfg.restarts, 1);
		log_warn(p->cfg.log, "%s; restarting it", e->msg);
	}
}

/* Asks which rows the question needs, and reads them into `rows`. */
static enum err_code ask_which_rows(struct program *p, const char *about, struct params_rows *rows,
    struct err *e)
{
	char *line = mem_printf("rows %s\n", about), says[LINE_MAX_BYTES];
	enum err_code rc = ask_with_restart(p, &(const struct question){ .line = line }, says, e);

	free(line);
	if (!rc)
		rc = program_rows_parse(&p->files, says, rows, e);
	p->there = rc ? NULL : rows;
	return rc;
}

/* Asks for loss and metrics with these parameters of the rows. */
static enum err_code ask_numbers(struct program *p, const char *about,
    const struct params_rows *rows, const float *const params[], struct eval_result *r,
    struct err *e)
{
	char *named = program_rows_text(&p->files, rows),
	     *line = mem_printf("%s%s\n", about, named), says[LINE_MAX_BYTES];
	enum err_code rc = ask_with_restart(p, &(const struct question){ line, rows, params }, says,
	    e);

	free(line);
	free(named);
	*r = (struct eval_result){ 0 };
	return rc ? rc : parse_numbers(says, r, e);
}

/* "step N examples N data PATH BEGIN END epoch N": the examples of a step, for a question. To be
 * freed. */
static char *about_step(const struct program *p, const struct batch *b)
{
	return mem_printf("step %llu examples %zu data %s %llu %llu epoch %llu",
	    (unsigned long long)p->step, b->rows, data_path_word(p), (unsigned long long)b->first,
	    (unsigned long long)(b->first + b->rows), (unsigned long long)b->epoch);
}

/* Implements the gradient of struct model_outside. The interface returns no error code: on failure
 * the result is NaN and p->fault holds the reason, and after success p->fault is empty. An answer
 * without a number of examples is accepted; a number other than that of the batch is not. */
static double ask_gradient(void *ctx, const struct batch *b, const float *const params[],
    float *const grads[])
{
	struct program *p = ctx;
	char *about = about_step(p, b);
	struct eval_result r;
	enum err_code rc = ask_numbers(p, about, p->of_step, params, &r, &p->fault);

	free(about);
	if (!rc && !r.has[METRIC_loss])
		rc = err_set(&p->fault, ERR_FORMAT,
		    "the program answered \"ok\" without its loss, expected \"ok loss NUMBER "
		    "examples NUMBER\"");
	if (!rc && r.examples && r.examples != b->rows)
		rc = err_set(&p->fault, ERR_FORMAT,
		    "the program answered for %llu example%s, expected %zu",
		    (unsigned long long)r.examples, NUM_S(r.examples), b->rows);
	if (!rc)
		rc = program_files_read_grads(&p->files, p->of_step, grads, &p->fault);
	if (!rc)
		p->fault = (struct err){ 0 };
	return rc ? (double)NAN : r.value[METRIC_loss];
}

const struct model_outside *program_outside(const struct program *p)
{
	return &p->outside;
}

void program_step(struct program *p, uint64_t step)
{
	p->step = step;
}

enum err_code program_fault(const struct program *p, struct err *e)
{
	return p->fault.code ? err_pass(e, &p->fault) : ERR_OK;
}

enum err_code program_name_rows(struct program *p, const struct batch *b, struct params *to,
    struct err *e)
{
	enum err_code rc = ERR_OK;
	char *about;

	to->rows = p->of_step;
	if (!p->of_step)
		return ERR_OK;
	program_rows_clear(&p->files, p->of_step);
	if (!b->rows)
		return ERR_OK;
	about = about_step(p, b);
	rc = ask_which_rows(p, about, p->of_step, e);
	free(about);
	return rc;
}

static char *about_eval(const struct program *p)
{
	const struct conf_strs *eval = &p->job->conf.job.eval;

	return mem_printf("eval data %s",
	    eval->n == 1 && !strpbrk(eval->item[0], " \t\n") ? eval->item[0] : "-");
}

enum err_code program_name_eval_rows(struct program *p, struct params *to, struct err *e)
{
	char *about;
	enum err_code rc;

	if (!p->of_eval)
		return ERR_OK;
	to->rows = p->of_eval;
	about = about_eval(p);
	rc = ask_which_rows(p, about, p->of_eval, e);
	free(about);
	return rc;
}

enum err_code program_evaluate(struct program *p, const float *const params[],
    struct eval_result *out, struct err *e)
{
	char *about = about_eval(p);
	enum err_code rc = ask_numbers(p, about, p->of_eval, params, out, e);

	free(about);
	return rc;
}
