/* SPDX-License-Identifier: ISC */
#include "coordinator/http/summary_row.h"

#include "coordinator/checkpoint_schedule.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/procstat.h"
#include "optim/schedule.h"

static double seconds_of(int64_t ns)
{
	return (double)ns / (double)NSEC_PER_SEC;
}

/* The learning rate of the present step; null without a job. */
static json_t *learning_rate(const json_t *config, uint64_t step)
{
	const json_t *job = json_object_get(config, "job");
	struct schedule s;

	if (!job || schedule_parse(json_str(job, "schedule", "constant"), &s, NULL))
		return json_null();
	return json_of_num(json_num(job, "lr", 0) * schedule_factor(&s, step));
}

/* Workers report examples; a step takes one batch of each worker. */
static double steps_per_second(const struct coordinator *coordinator, const json_t *row)
{
	double each = (double)coord_batch(coordinator->coord) * json_num(row, "workers", 0);

	return each > 0 ? json_num(row, "examples_per_second", 0) / each : 0;
}

static void add_checkpoints(const struct coordinator *coordinator, json_t *row)
{
	struct checkpoint_schedule_figures f = { 0 };

	if (coordinator->checkpoints)
		f = checkpoint_schedule_figures(coordinator->checkpoints);
	json_object_set_new(row, "checkpoints", json_integer((json_int_t)f.made));
	json_object_set_new(row, "checkpoint_failures", json_integer((json_int_t)f.failed));
	json_object_set_new(row, "checkpoint_step", json_integer((json_int_t)f.step));
	json_object_set_new(row, "checkpoint_seconds", json_of_num(seconds_of(f.took)));
	json_object_set_new(row, "checkpoint_unix_seconds", json_of_num(seconds_of(f.at)));
	json_object_set_new(row, "checkpoint_every_seconds", json_of_num(seconds_of(f.every)));
}

json_t *summary_row_make(struct coordinator *coordinator, int64_t now)
{
	json_t *row = coord_row(coordinator->coord, now);

	mutex_assert_held(&coordinator->lock);
	json_object_set_new(row, "lr",
	    learning_rate(coord_present_config(coordinator->coord),
	        (uint64_t)json_int(row, "step", 0)));
	json_object_set_new(row, "optimizer",
	    json_string(json_str(json_object_get(coord_present_config(coordinator->coord), "job"),
	        "optimizer", "")));
	json_object_set_new(row, "steps_per_second",
	    json_of_num(steps_per_second(coordinator, row)));
	add_checkpoints(coordinator, row);
	json_object_set_new(row, "http_refused",
	    json_integer(
	        coordinator->http ? (json_int_t)http_server_refused(coordinator->http) : 0));
	return row;
}

json_t *summary_row_process(const struct coordinator *coordinator)
{
	struct procfiles files;
	struct procstat ps;

	procstat_read(&ps);
	procstat_files(0, &files);
	return json_pack("{s:I, s:f, s:i, s:f}", "rss_bytes", (json_int_t)ps.rss_bytes,
	    "cpu_seconds", ps.cpu_seconds, "open_fds", files.open, "start_unix_seconds",
	    seconds_of(coordinator->server->began));
}
