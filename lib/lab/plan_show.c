/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf/conf_rule.h"
#include "core/json.h"
#include "core/num.h"
#include "lab/plan.h"

/* Formats seconds as "1.23 s", "45.6 ms", "789 us", "0.3 ns" or "5.2 h". Returns out. */
static const char *format_seconds(double s, char out[static 24])
{
	static const struct {
		double from, scale;
		const char *unit;
	} unit[] = {
		{ 48 * 3600, 86400, "days" },
		{ 5400, 3600, "h" },
		{ 300, 60, "min" },
		{ 1, 1, "s" },
		{ 1e-3, 1e-3, "ms" },
		{ 1e-6, 1e-6, "us" },
	};

	for (size_t i = 0; i < (sizeof unit / sizeof *unit); i++)
		if (s >= unit[i].from) {
			snprintf(out, 24, "%.3g %s", s / unit[i].scale, unit[i].unit);
			return out;
		}
	snprintf(out, 24, s > 0 ? "%.3g ns" : "0 s", s * 1e9);
	return out;
}

/* ---- for people ---- */

static void print_phase(const char *name, double s, double all, const char *what)
{
	char t[24];

	printf("  %-9s %9s %5.1f %%  %s\n", name, format_seconds(s, t), all > 0 ? 100 * s / all : 0,
	    what);
}

static double sum_of_phases(const struct sim_result *r)
{
	return r->compute_seconds + r->push_seconds + r->wait_seconds + r->pull_seconds;
}

/* Phases are printed as shares of their sum, which is a worker's time from step to step. Line
 * shares are of the simulated interfaces; the number of cores appears only where all share a
 * host. */
static void print_step_times(const struct planned *x)
{
	const struct sim_result *r = &x->result;
	const struct conf *c = &x->conf;
	double all = sum_of_phases(r);
	char t[24], mode[32], rate[16];

	sync_format(&c->sync, mode);
	printf("%u server%s, %u worker%s, %s, codec %s, batch %lld", x->spec.servers,
	    NUM_S(x->spec.servers), x->spec.workers, NUM_S(x->spec.workers), mode, c->codec,
	    (long long)c->job.batch);
	if (c->accumulate > 1)
		printf(" x %lld", (long long)c->accumulate);
	if (c->local_steps > 1)
		printf(", %lld local steps", (long long)c->local_steps);
	num_count(r->gradients_per_second * (double)conf_step_examples(c), rate);
	printf(": a step takes %s, %s examples/s\n", format_seconds(r->step_seconds, t), rate);
	print_phase("compute", r->compute_seconds, all, "the gradient, and other work on its core");
	print_phase("push", r->push_seconds, all, "sending the gradient to the servers");
	print_phase("wait", r->wait_seconds, all, "for other workers and the update");
	print_phase("pull", r->pull_seconds, all, "receiving the parameters");
	printf(
	    "idle      %4.1f %% of a worker's time; busy: worker's link %.0f %% up, %.0f %% down, "
	    "server's link %.0f %% in, %.0f %% out, "
	    "server's threads %.0f %%\n",
	    all > 0 ? 100 * (1 - r->compute_seconds / all) : 0, 100 * r->worker_up,
	    100 * r->worker_down, 100 * r->server_down, 100 * r->server_up, 100 * r->server_cpu);
	if (r->host_cpu > 0)
		printf("cores     %.0f %% of %u\n", 100 * r->host_cpu, x->spec.cores);
	if (r->late_share > 0)
		printf("late      %.1f %% of the gradients\n", 100 * r->late_share);
}

static void print_bytes_and_memory(const struct planned *x)
{
	const struct sim_spec *s = &x->spec;
	char up[16], down[16], all[16], mem[16], tables[16];

	num_human(s->push_bytes + s->ask_bytes, up);
	num_human(s->pull_bytes, down);
	num_human((s->push_bytes + s->pull_bytes + s->ask_bytes) * s->workers, all);
	num_human(x->memory, mem);
	num_human(x->tables, tables);
	printf(
	    "bytes     %sB up and %sB down for a step of a worker, %sB for a step of all workers\n",
	    up, down, all);
	printf("memory    at most %sB per server, %sB of it for tables%s\n", mem, tables,
	    plan_candidate_exceeds_memory(x)
	        ? ": more than mem_limit, so the servers would not start"
	        : "");
}

static void print_bottlenecks(const struct plan_output *w)
{
	char t[24];

	printf("limit     ");
	if (!w->limit[0].what)
		printf("no single part: doubling the speed of any saves less than 2 %% of a step");
	for (size_t i = 0; i < PLAN_LIMITS && w->limit[i].what; i++)
		printf("%s%s: %s per step", i ? "; " : "", w->limit[i].what,
		    format_seconds(w->limit[i].step_seconds, t));
	printf("\n");
}

/* An epoch's time is the number of examples over the rate of all workers together. Unknown numbers
 * are 0, and their lines are left out. */
static void print_data_facts(const struct plan_output *w, const struct planned *x)
{
	const struct capacity_plan_facts *f = &w->plan->facts;
	double rate = x->result.gradients_per_second * (double)conf_step_examples(&x->conf);
	char a[24], n[16], b[16], r[16];

	if (f->examples > 0) {
		num_count(f->examples, n);
		printf("data      %s examples", n);
		if (f->example_bytes > 0) {
			num_count(f->examples * f->example_bytes, b);
			num_count(rate * f->example_bytes / x->spec.workers, r);
			printf(" of %.0f bytes, %sB; each worker reads %sB/s", f->example_bytes, b,
			    r);
		}
		printf("; an epoch takes %s\n", format_seconds(f->examples / rate, a));
	}
	if (w->samples > 0)
		printf("job       all its examples in %s\n", format_seconds(x->seconds, a));
}

/* All costs are seconds except `crowded`, which is a factor. A cost of 0 does not occur in this
 * configuration and is not listed. */
static void print_plan_costs(const struct plan_output *w, const struct planned *x)
{
	const struct capacity_plan_cost_info *k;
	const char *comma = "";
	char t[24];

	printf("costs    ");
	for (size_t i = 0; (k = capacity_plan_cost_at(i)) != NULL; i++) {
		double v = x->costs.v[i];

		if (v == 0)
			continue;
		if (i == PLAN_crowded)
			snprintf(t, sizeof t, "x %.2f", v);
		printf("%s %s %s%s", comma, k->name, i == PLAN_crowded ? t : format_seconds(v, t),
		    !isnan(w->plan->fixed[i]) ||
		            (i == PLAN_batch && w->plan->place.compute.seconds >= 0)
		        ? " (given)"
		        : "");
		comma = ",";
	}
	printf("\n");
}

/* The prediction's error is relative to the measured step: +10 % is a prediction that is too
 * slow. */
static void print_measured(const struct plan_output *w, const struct planned *x)
{
	const struct plan_sample *s = w->sample;
	char a[24], b[24], c[24], d[24], f[24], g[24], up[16], down[16];

	if (!s)
		return;
	num_human(s->pushed, up);
	num_human(s->pulled, down);
	printf(
	    "measured  %s per step (predicted %+.0f %%): data %s, compute %s, push %s, wait %s, pull "
	    "%s; %sB up, %sB down\n",
	    format_seconds(s->step, a), 100 * (x->result.step_seconds / s->step - 1),
	    format_seconds(s->data, b), format_seconds(s->compute, c), format_seconds(s->push, d),
	    format_seconds(s->wait, f), format_seconds(s->pull, g), up, down);
}

static void print_accuracy(void)
{
	printf(
	    "accuracy  costs are those of this machine; make bench-plan finds half of all steps within "
	    "10 %%, nearly all within 35 %%;\n"
	    "          not simulated: slow start and losses of TCP, other load, stragglers "
	    "not given by --compute and --slow\n");
}

/* "faster" is the ratio of examples a second, and not of step times, because a step may have
 * another number of examples. */
static void print_alternatives(const struct planned *own, const struct planned *row, size_t n,
    double samples)
{
	char a[24], b[24], up[16], down[16];

	if (!n)
		return;
	printf("\n%10s %8s %10s %8s %8s  %s\n", samples > 0 ? "time" : "", "faster", "step", "up",
	    "down", "until the same number of examples");
	for (size_t i = 0; i < n; i++) {
		const struct planned *x = &row[i];
		double rate = x->result.gradients_per_second * (double)conf_step_examples(&x->conf),
		       base = own->result.gradients_per_second *
		    (double)conf_step_examples(&own->conf);

		num_human(x->spec.push_bytes + x->spec.ask_bytes, up);
		num_human(x->spec.pull_bytes, down);
		printf("%10s %7.2fx %10s %7sB %7sB  %s\n",
		    samples > 0 ? format_seconds(x->seconds, a) : "", rate / base,
		    format_seconds(x->result.step_seconds, b), up, down,
		    *x->set ? x->set : "unchanged");
	}
	printf(
	    "Equal examples are not equal losses: sync, accumulate, local_steps, lossy codecs and "
	    "more workers change what is learned from them.\n");
}

/* ---- for programs ---- */

/* Numbers that are not finite become null. Units are part of the names. */
static json_t *planned_to_json(const struct plan_output *w, const struct planned *x)
{
	const struct sim_result *r = &x->result;
	double all = sum_of_phases(r);
	json_t *o = json_object();

#define NUM(name, value) json_object_set_new(o, name, json_of_num(value))
	json_object_set_new(o, "set", json_string(x->set));
	json_object_set_new(o, "servers", json_integer(x->spec.servers));
	json_object_set_new(o, "workers", json_integer(x->spec.workers));
	NUM("step_seconds", r->step_seconds);
	NUM("compute_seconds", r->compute_seconds);
	NUM("push_seconds", r->push_seconds);
	NUM("wait_seconds", r->wait_seconds);
	NUM("pull_seconds", r->pull_seconds);
	NUM("idle_share", all > 0 ? 1 - r->compute_seconds / all : 0);
	NUM("late_share", r->late_share);
	NUM("examples_per_second", r->gradients_per_second * (double)conf_step_examples(&x->conf));
	json_object_set_new(o, "seconds", w->samples > 0 ? json_of_num(x->seconds) : json_null());
	/* Count all bytes that a worker sends, as workers report them: pull requests are included. */
	NUM("pushed_bytes", x->spec.push_bytes + x->spec.ask_bytes);
	NUM("pulled_bytes", x->spec.pull_bytes);
	NUM("server_memory_bytes", x->memory);
	NUM("worker_up_share", r->worker_up);
	NUM("worker_down_share", r->worker_down);
	NUM("server_in_share", r->server_down);
	NUM("server_out_share", r->server_up);
	NUM("server_cpu_share", r->server_cpu);
	NUM("host_cpu_share", r->host_cpu);
#undef NUM
	return o;
}

static void print_json_line(const char *kind, json_t *o)
{
	json_print_event(kind, o);
	json_decref(o);
}

/* Prints one "plan" line, and then an "alternative" line for each row. */
static void show_plan_json(const struct plan_output *w, const struct planned *own,
    const struct planned *row, size_t n)
{
	json_t *o = planned_to_json(w, own), *costs = json_object();

	for (size_t i = 0; capacity_plan_cost_at(i); i++)
		json_object_set_new(costs, capacity_plan_cost_at(i)->name,
		    json_of_num(own->costs.v[i]));
	json_object_set_new(o, "costs", costs);
	json_object_set_new(o, "bottleneck",
	    w->limit->what ? json_string(w->limit->what) : json_null());
	json_object_set_new(o, "relieved_step_seconds", json_of_num(w->limit->step_seconds));
	json_object_set_new(o, "examples", json_of_num(w->samples));
	if (w->sample)
		json_object_set_new(o, "measured_step_seconds", json_of_num(w->sample->step));
	print_json_line("plan", o);
	for (size_t i = 0; i < n; i++)
		print_json_line("alternative", planned_to_json(w, &row[i]));
}

void plan_show(const struct plan_output *w, const struct planned *own, const struct planned *row,
    size_t n)
{
	if (w->json) {
		show_plan_json(w, own, row, n);
		return;
	}
	print_step_times(own);
	print_bytes_and_memory(own);
	print_bottlenecks(w);
	print_data_facts(w, own);
	print_plan_costs(w, own);
	print_measured(w, own);
	print_accuracy();
	print_alternatives(own, row, n, w->samples);
}
