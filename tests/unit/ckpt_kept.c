/* SPDX-License-Identifier: ISC */
/* The places of streams and the residuals that existing checkpoints need. */
#include "ckpt_fixture.h"

#include <unistd.h>

#include "ckpt/kept.h"

static char dir[] = "/tmp/pskit-kept-XXXXXX";

/* Saves a checkpoint in which partition 0 of a stream is at `place` (-1: nobody has begun it), and rank 1 at
 * the step `clock`. */
static char *save(uint64_t step, const char *mode, int64_t place, uint64_t clock)
{
	struct model *m = model_new(step, 1);
	json_t *head = model_head(1, 0), *places = json_array();
	struct err e = { 0 };
	char *path = NULL;
	struct ckpt *c;

	if (place >= 0)
		json_array_append_new(places,
		    json_pack("{s:i, s:i, s:I}", "id", 0, "placed", 4, "place", (json_int_t)place));
	json_array_append_new(places,
	    json_pack("{s:i, s:i, s:I}", "id", 3, "placed", 4, "place", (json_int_t)step));
	json_object_set_new(head, "mode", json_string(mode));
	json_object_set_new(head, "ranks",
	    json_pack("[{s:i, s:i, s:b}, {s:i, s:I, s:b}]", "rank", 0, "clock", 7, "done", 0,
	        "rank", 1, "clock", (json_int_t)clock, "done", 0));
	json_object_set_new(head, "data",
	    json_pack("{s:{s:b, s:i, s:i, s:i, s:[], s:[], s:o}}", "tasks", "stream", 1, "range", 1,
	        "next", 1, "done", 0, "open", "held", "places", places));
	if (ckpt_begin(dir, step, &c, &e) || model_write(m, c, 2, &e) ||
	    model_commit(c, head, &path, &e))
		ok(false, "a checkpoint is saved: %s", e.msg);
	json_decref(head);
	free(m);
	return path;
}

static void of_streams(void)
{
	struct ckpt_kept *k = ckpt_kept_new();
	struct err e = { 0 };
	char *path[4], *missing = path_join(dir, "missing"), *file;

	ok(!ckpt_kept_look(k, missing, &e) && !ckpt_kept_count(k) &&
	        ckpt_kept_newest_place(k, 0) == -1 && ckpt_kept_oldest_place(k, 0) == -1,
	    "without a checkpoint nothing may be given up");
	path[0] = save(10, "asp", 500, 10);
	path[1] = save(20, "asp", 400, 20);
	path[2] = save(30, "asp", 900, 30);
	ok(!ckpt_kept_look(k, dir, &e) && ckpt_kept_count(k) == 3, "three checkpoints exist: %s",
	    e.msg);
	ok(ckpt_kept_newest_place(k, 0) == 900 && ckpt_kept_oldest_place(k, 0) == 400,
	    "one of them needs the events from 400 on");
	ok(ckpt_kept_newest_place(k, 3) == 30 && ckpt_kept_oldest_place(k, 3) == 10 &&
	        ckpt_kept_newest_place(k, 1) == -1,
	    "each partition has a place of its own");
	ckpt_remove(path[1], NULL);
	ok(!ckpt_kept_look(k, dir, &e) && ckpt_kept_oldest_place(k, 0) == 500,
	    "a checkpoint that was removed needs nothing");
	file = path_join(path[0], CKPT_MANIFEST);
	unlink(file);
	ok(!ckpt_kept_look(k, dir, &e) && ckpt_kept_oldest_place(k, 0) == 900,
	    "nor does one without a manifest");
	free(file);
	file_replace(missing, "", 0, 0600, &e);
	ok(ckpt_kept_look(k, missing, &e) == ERR_IO && ckpt_kept_oldest_place(k, 0) == 900,
	    "a directory that cannot be read changes nothing: %s", e.msg);
	path[3] = save(40, "asp", -1, 40);
	ok(!ckpt_kept_look(k, dir, &e) && ckpt_kept_newest_place(k, 0) == -1 &&
	        ckpt_kept_oldest_place(k, 0) == -1,
	    "a checkpoint that does not know a partition needs all of its events");
	ckpt_kept_free(k);
	for (size_t i = 0; i < 4; i++) {
		file_remove_tree(path[i], NULL);
		free(path[i]);
	}
	unlink(missing);
	free(missing);
}

/* The steps of the files that are needed, as a text. */
static const char *needed_steps(const struct ckpt_kept *k, uint32_t rank, const uint64_t *steps,
    size_t n)
{
	static char text[100];
	bool needed[8] = { false };
	size_t len = 0;

	text[0] = 0;
	ckpt_kept_mark_needed(k, rank, steps, n, needed);
	for (size_t i = 0; i < n; i++)
		if (needed[i])
			len += (size_t)snprintf(text + len, sizeof text - len, " %llu",
			    (unsigned long long)steps[i]);
	return text;
}

static void of_residuals(void)
{
	static const uint64_t steps[] = { 5, 10, 15, 20, 25, 30 };
	struct ckpt_kept *k = ckpt_kept_new();
	struct err e = { 0 };
	char *path[4] = { save(10, "bsp", 0, 10), save(20, "bsp", 0, 20), save(22, "bsp", 0, 22) };

	ckpt_kept_look(k, dir, &e);
	ok(strcmp(needed_steps(k, 1, steps, 6), " 10 20") == 0,
	    "in bsp, files of the checkpoints' steps are needed:%s", needed_steps(k, 1, steps, 6));
	path[3] = save(21, "asp", 0, 12);
	ckpt_kept_look(k, dir, &e);
	ok(strcmp(needed_steps(k, 1, steps, 6), " 10 15 20") == 0,
	    "in asp, the rank's first one from its own step on:%s", needed_steps(k, 1, steps, 6));
	ok(strcmp(needed_steps(k, 0, steps, 6), " 10 20") == 0, "each rank has its own step:%s",
	    needed_steps(k, 0, steps, 6));
	ok(strcmp(needed_steps(k, 0, steps, 0), "") == 0, "without files none is needed");
	ckpt_kept_free(k);
	for (size_t i = 0; i < 4; i++) {
		file_remove_tree(path[i], NULL);
		free(path[i]);
	}
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	of_streams();
	of_residuals();
	file_remove_tree(dir, NULL);
	return tap_done();
}
