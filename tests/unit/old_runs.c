/* SPDX-License-Identifier: ISC */
/* Earlier runs beside a run directory: their numbers, and which of them are removed. */
#include "rundir/old_runs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "rundir/rundir.h"
#include "tap.h"

static char dir[] = "/tmp/pskit-old-runs-XXXXXX";
static struct err e;

static char *run_path(const char *name)
{
	return path_join(dir, name);
}

/* Makes a run directory with a result of this state (NULL: none), and perhaps a checkpoint. */
static void make_run(const char *name, const char *state, bool checkpoint)
{
	char *path = run_path(name), *file = path_join(path, "result.json"),
	     *step = path_join(path, "checkpoints/step-5");
	char *text = state ? mem_printf("{\"state\": \"%s\"}\n", state) : NULL;
	bool good = file_mkdirs(path, 0700, &e) == ERR_OK;

	if (good && text)
		good = file_replace(file, text, strlen(text), 0600, &e) == ERR_OK;
	if (good && checkpoint)
		good = file_mkdirs(step, 0700, &e) == ERR_OK;
	if (!good)
		printf("# %s\n", e.msg);
	free(text);
	free(step);
	free(file);
	free(path);
}

static bool exists(const char *name)
{
	char *path = run_path(name);
	bool is = access(path, F_OK) == 0;

	free(path);
	return is;
}

static void test_numbers(void)
{
	char *path = run_path("a.run");
	int64_t *number;
	size_t n = old_runs_list(path, &number);
	int lock;

	ok(n == 0, "no earlier runs");
	free(number);
	make_run("a.run.10", "done", false);
	make_run("a.run.2", "done", false);
	make_run("a.run.x", "done", false);
	make_run("ba.run.3", "done", false);
	n = old_runs_list(path, &number);
	ok(n == 2 && number[0] == 2 && number[1] == 10, "numbers in ascending order");
	free(number);
	make_run("a.run", "done", false);
	ok(rundir_create(path, &lock, &e) == ERR_OK && exists("a.run.11") && !exists("a.run.1"),
	    "the next run gets the next number, not a free one");
	close(lock);
	free(path);
}

static void test_prune(void)
{
	char *path = run_path("b.run"), *living = run_path("b.run.7"),
	     *model = run_path("b.run.3/model.safetensors");
	const char *used[] = { model, "auto", NULL };
	struct buf names = BUF_INIT;
	int lock;

	make_run("b.run", "done", false);
	make_run("b.run.1", "done", true);
	make_run("b.run.2", "stopped", true);
	make_run("b.run.3", "done", false);
	make_run("b.run.4", NULL, false);
	make_run("b.run.5", "failed", false);
	make_run("b.run.6", "failed", true);
	make_run("b.run.7", "done", false);
	make_run("b.run.8", "done", false);
	make_run("b.run.9", "done", false);
	file_replace(model, "x", 1, 0600, &e);
	ok(rundir_lock(living, &lock, &e) == ERR_OK, "one of them is alive");
	ok(old_runs_prune(path, 2, used, 3, &names, &e) == 2 && !e.code &&
	        strcmp((char *)names.data, "b.run.5 b.run.1") == 0,
	    "all but the newest two of those that are finished are removed: %s",
	    (char *)names.data);
	ok(exists("b.run") && exists("b.run.9") && exists("b.run.8"), "the newest stay");
	ok(exists("b.run.2") && exists("b.run.6"), "those with a checkpoint to go on from stay");
	ok(exists("b.run.4"), "one without a result stays");
	ok(exists("b.run.7"), "one that is alive stays");
	ok(exists("b.run.3"), "one whose model is in use stays");
	close(lock);
	names.len = 0;
	ok(old_runs_prune(path, 0, NULL, 0, &names, &e) == 4 && exists("b.run"),
	    "with 0 all that are finished go, but not the newest run itself");
	buf_release(&names);
	free(model);
	free(living);
	free(path);
}

int main(void)
{
	if (!mkdtemp(dir))
		return skip_all("no temporary directory");
	test_numbers();
	test_prune();
	file_remove_tree(dir, NULL);
	return tap_done();
}
