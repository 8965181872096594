/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "core/json.h"
#include "core/procstat.h"
#include "session/tracer.h"
#include "worker/worker.h"

/* The loss of a smaller first batch says too little about the start of the job. */
#define FIRST_EXAMPLES 32

static double ns_to_seconds(int64_t ns)
{
	return (double)ns / (double)NSEC_PER_SEC;
}

static void set_doing(struct worker *w, const char *what, int64_t pause)
{
	mutex_lock(&w->lock);
	w->fig.doing = what;
	w->fig.doing_since = clock_now();
	w->fig.paused = pause;
	mutex_unlock(&w->lock);
}

void figures_know_job(struct worker *w)
{
	mutex_lock(&w->lock);
	w->fig.streams = w->job.stream != NULL;
	w->fig.bad_lines = w->job.bad;
	mutex_unlock(&w->lock);
}

void figures_doing(struct worker *w, const char *what)
{
	set_doing(w, what, 0);
}

void figures_paused(struct worker *w, int64_t pause)
{
	set_doing(w, "pause", pause);
}

/* Adds how far the epoch is, of data in blocks. */
static void add_reading(json_t *o, const struct figures *f)
{
	if (!f->reading.epoch_bytes)
		return;
	json_object_set_new(o, "data_bytes", json_integer((json_int_t)f->reading.epoch_bytes));
	json_object_set_new(o, "data_read_bytes", json_integer((json_int_t)f->reading.read_bytes));
	json_object_set_new(o, "blocks_left", json_integer((json_int_t)f->reading.blocks_left));
}

static void add_losses(json_t *o, const struct figures *f)
{
	json_object_set_new(o, "train_loss", f->loss_examples ? json_of_num(f->loss) : json_null());
	if (f->has_first_loss)
		json_object_set_new(o, "first_loss", json_of_num(f->first_loss));
	json_object_set_new(o, "progressive_examples",
	    json_integer((json_int_t)f->progressive_examples));
	json_object_set_new(o, "progressive_loss",
	    f->progressive_examples
	        ? json_of_num(f->progressive_sum / (double)f->progressive_examples)
	        : json_null());
}

/* Adds the seconds that the phases of all steps have taken together. */
static void add_phase_times(json_t *o, const struct figures *f)
{
	json_object_set_new(o, "data_seconds", json_of_num(f->data));
	json_object_set_new(o, "pull_seconds", json_of_num(f->pull));
	json_object_set_new(o, "compute_seconds", json_of_num(f->compute));
	json_object_set_new(o, "encode_seconds", json_of_num(f->encode));
	json_object_set_new(o, "push_seconds", json_of_num(f->push));
	json_object_set_new(o, "wait_seconds", json_of_num(f->wait));
}

/* Adds what the worker is doing. open: the oldest step of which a push has no receipt. */
static void add_activity(json_t *o, const struct figures *f, uint64_t open)
{
	if (!f->doing)
		return;
	json_object_set_new(o, "doing", json_string(f->doing));
	json_object_set_new(o, "paused", json_integer(f->paused));
	if (open != CLIENT_NONE_OPEN)
		json_object_set_new(o, "unacknowledged", json_integer((json_int_t)open));
	json_object_set_new(o, "doing_seconds",
	    json_of_num(ns_to_seconds(clock_now() - f->doing_since)));
}

json_t *figures_json(void *worker)
{
	struct worker *w = worker;
	struct procstat ps;
	struct figures f;
	uint64_t open;
	json_t *o;

	mutex_lock(&w->lock);
	f = w->fig;
	w->fig.norm_wanted = true;
	mutex_unlock(&w->lock);
	/* Read after `doing`: a worker that is paused or waits makes no more pushes. */
	open = atomic_load(&w->oldest_open);
	procstat_read(&ps);
	o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "step", (json_int_t)f.step,
	    "steps_total", (json_int_t)f.total, "examples", (json_int_t)f.examples, "loss_examples",
	    (json_int_t)f.loss_examples, "pushed_bytes", (json_int_t)f.pushed, "pulled_bytes",
	    (json_int_t)f.pulled, "rss_bytes", (json_int_t)ps.rss_bytes);
	json_object_set_new(o, "pushes_refused", json_integer((json_int_t)f.refused));
	json_object_set_new(o, "rows_offered", json_integer((json_int_t)f.rows));
	json_object_set_new(o, "rows_held", json_integer((json_int_t)f.held));
	json_object_set_new(o, "ring_bytes", json_integer((json_int_t)f.ring));
	add_reading(o, &f);
	if (f.bad_lines)
		json_object_set_new(o, "bad_lines",
		    json_integer((json_int_t)data_bad_lines_count(f.bad_lines)));
	json_object_set_new(o, "settings", json_integer(f.settings));
	json_object_set_new(o, "settings_step", json_integer((json_int_t)f.settings_step));
	json_object_set_new(o, "steps", json_integer((json_int_t)f.step));
	add_losses(o, &f);
	json_object_set_new(o, "epoch", json_of_num(f.epoch));
	json_object_set_new(o, "examples_per_second", json_of_num(f.rate));
	add_phase_times(o, &f);
	json_object_set_new(o, "gradient_norm", f.norm < 0 ? json_null() : json_of_num(f.norm));
	json_object_set_new(o, "cpu_seconds", json_of_num(ps.cpu_seconds));
	/* Buckets from 16 us to 4.3 s. */
	json_object_set_new(o, "push_latency", hist_json(&w->latency, 14, 2, 10, 1e-9));
	json_object_set_new(o, "start_unix_seconds", json_of_num(ns_to_seconds(w->began)));
	if (f.streams)
		json_object_set_new(o, "lag", json_integer((json_int_t)f.lag));
	if (w->cfg->exec)
		json_object_set_new(o, "program_restarts",
		    json_integer((json_int_t)atomic_load(&w->program_restarts)));
	add_activity(o, &f, open);
	return o;
}

/* Adds the step to the running trace. */
static void trace_step(const struct worker *w, const struct step_times *t)
{
	const int64_t v[TRACER_NUMBERS] = { (int64_t)w->step, t->begin, t->waited, t->data,
		t->answer, t->pulled, t->computed, t->pushed, (int64_t)w->batch.rows };

	tracer_add(cluster_view_tracer(w->cluster), TRACE_STEP, v, TRACER_NUMBERS);
}

void figures_record_step(struct worker *w, const double *loss, const struct step_times *t)
{
	struct client_stats cs;
	double sum = 0;
	uint64_t n = 0, ring;
	int64_t now = clock_now(), pushing = t->pushed - t->computed, encoding;

	if (tracer_is_on(cluster_view_tracer(w->cluster)))
		trace_step(w, t);
	if (w->batch.rows && loss) {
		w->recent.loss[w->recent.nlosses % LOSS_WINDOW] = *loss;
		w->recent.weight[w->recent.nlosses++ % LOSS_WINDOW] = w->batch.rows;
	}
	for (uint64_t i = 0; i < LOSS_WINDOW && i < w->recent.nlosses; i++) {
		sum += w->recent.loss[i] * (double)w->recent.weight[i];
		n += w->recent.weight[i];
	}
	client_stats(w->client, &cs);
	encoding = cs.encode_ns - w->recent.encoded;
	w->recent.encoded = cs.encode_ns;
	/* Encoding for retries during a wait does not belong to the push time. */
	if (encoding > pushing)
		encoding = pushing;
	ring = w->exchange->bytes(w);
	mutex_lock(&w->lock);
	w->fig.step = w->step + 1;
	w->fig.total = batches_total_steps(w->batches);
	w->fig.examples += w->batch.rows;
	w->fig.lag = batches_lag(w->batches);
	w->fig.loss = n ? sum / (double)n : 0;
	w->fig.loss_examples = n;
	/* The loss of a batch is that of the parameters before the step. */
	if (w->batch.rows && loss) {
		w->fig.progressive_sum += *loss * (double)w->batch.rows;
		w->fig.progressive_examples += w->batch.rows;
		if (w->recent.nlosses == 1 && w->batch.rows >= FIRST_EXAMPLES) {
			w->fig.first_loss = *loss;
			w->fig.has_first_loss = true;
		}
	}
	w->fig.epoch = batches_epoch(w->batches);
	batches_reading(w->batches, &w->fig.reading);
	w->fig.pushed = cs.pushed_bytes;
	w->fig.pulled = cs.pulled_bytes;
	w->fig.rows = cs.rows_offered;
	w->fig.held = cs.rows_held;
	w->fig.ring = ring;
	w->fig.norm = w->params.norm;
	w->params.norm_wanted |= w->fig.norm_wanted;
	w->fig.norm_wanted = false;
	w->fig.data += ns_to_seconds(t->data - t->begin - t->waited);
	w->fig.wait += ns_to_seconds(t->answer - t->data + t->waited);
	w->fig.pull += ns_to_seconds(t->pulled - t->answer);
	w->fig.compute += ns_to_seconds(t->computed - t->pulled);
	w->fig.encode += ns_to_seconds(encoding);
	w->fig.push += ns_to_seconds(pushing - encoding);
	if (now - w->recent.rate_at > NSEC_PER_SEC / 2) {
		w->fig.rate = (double)(w->fig.examples - w->recent.rate_examples) /
		    ns_to_seconds(now - w->recent.rate_at);
		w->recent.rate_examples = w->fig.examples;
		w->recent.rate_at = now;
	}
	mutex_unlock(&w->lock);
}
