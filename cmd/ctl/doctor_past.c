/* SPDX-License-Identifier: ISC */
#include "doctor.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/launch.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/procstat.h"
#include "ctl.h"
#include "rundir/result.h"
#include "rundir/rundir.h"

char *doctor_last_words(const struct doctor *d, const char *id, enum err_cause *cause)
{
	char *path = d->dir ? mem_printf("%s/%s.log", d->dir, id) : NULL, *said = NULL;
	struct buf text = BUF_INIT;
	const char *sentence;

	*cause = path ? launch_last_words(path, &text) : CAUSE_UNKNOWN;
	sentence = text.len ? launch_error_of_line((char *)text.data) : NULL;
	if (sentence)
		said = mem_strdup(sentence);
	buf_release(&text);
	free(path);
	return said;
}

/* Reports how the run ended, by its result.json. Returns false when that tells no cause: there is
 * none, or it says "failed" without a reason. */
static bool report_result(struct doctor *d, enum doctor_level level)
{
	json_t *result = result_read(d->dir, NULL);
	const char *reason = json_str(result, "reason", "");
	bool told = result && (!result_has_state(result, PHASE_FAILED) || *reason);
	int64_t nskipped = json_int(result, "bad_lines", 0);

	if (told && result_has_state(result, PHASE_FAILED))
		doctor_add_message(d, level, DOCTOR_CAUSE, d->dir,
		    err_cause_by_name(json_str(result, "cause", "")), reason);
	else if (result && !told)
		doctor_add_finding(d, level, DOCTOR_EFFECT, "result", d->dir,
		    "ps-ctl logs shows the last messages",
		    "the last run failed before it was ready");
	else if (result && *json_str(result, "unsaved", ""))
		doctor_add_message(d, level, DOCTOR_CAUSE, d->dir,
		    err_cause_by_name(json_str(result, "unsaved_cause", "")),
		    json_str(result, "unsaved", ""));
	else if (!result && access(d->dir, R_OK | X_OK) == 0)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_EFFECT, "result", d->dir,
		    doctor_has_checkpoint(d)
		        ? "ps-ctl start CLUSTER_FILE --resume auto continues it from its newest checkpoint"
		        : "it has no checkpoint to go on from: ps-ctl start CLUSTER_FILE trains from the beginning",
		    "the last run has no result: it was killed, or had no supervisor");
	else if (result)
		doctor_add_finding(d, DOCTOR_OK, DOCTOR_PLAIN, "result", d->dir, "",
		    "the last run is %s", json_str(result, "state", "?"));
	doctor_refused_pushes(d, "the last run", json_int(result, "pushes_refused", 0));
	if (nskipped > 0)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_CAUSE, "data", d->dir,
		    "correct the lines, which ps-ctl logs names",
		    "a worker of the last run skipped %lld bad line%s of its data",
		    (long long)nskipped, NUM_S(nskipped));
	doctor_learning(d, result);
	json_decref(result);
	return told;
}

static bool is_process_id(const char *id)
{
	return strncmp(id, "server-", 7) == 0 || strncmp(id, "worker-", 7) == 0 ||
	    strcmp(id, "coordinator") == 0;
}

/* Reports the last error message of a process that has ended. */
static void report_last_words(struct doctor *d, const char *id, enum doctor_level level)
{
	enum err_cause cause;
	char *said = rundir_read_pid(d->dir, id) ? NULL : doctor_last_words(d, id, &cause);
	char text[700];

	if (said) {
		snprintf(text, sizeof text, "%s has ended: %s", id, said);
		doctor_add_message(d, level, DOCTOR_PLAIN, id, cause, text);
	}
	free(said);
}

static void report_all_last_words(struct doctor *d, enum doctor_level level)
{
	DIR *dir = opendir(d->dir);
	struct dirent *f;

	while (dir && (f = readdir(dir))) {
		char *id = path_stem(f->d_name);

		if (is_process_id(id) && strcmp(f->d_name + strlen(id), ".log") == 0)
			report_last_words(d, id, level);
		free(id);
	}
	if (dir)
		closedir(dir);
}

static void check_open_files(struct doctor *d, const char *id, pid_t pid)
{
	struct procfiles files;

	if (pid > 0 && procstat_files(pid, &files))
		doctor_descriptors(d, id, files.most, files.open, 0);
}

void doctor_processes(struct doctor *d)
{
	DIR *dir = opendir(d->dir);
	struct dirent *f;
	pid_t owner;

	if (rundir_is_alive(d->dir, &owner) && !rundir_is_supervised(d->dir))
		check_open_files(d, "the coordinator", owner);
	while (dir && (f = readdir(dir))) {
		char *id = path_stem(f->d_name);

		if (is_process_id(id) && strcmp(f->d_name + strlen(id), ".pid") == 0)
			check_open_files(d, id, rundir_read_pid(d->dir, id));
		free(id);
	}
	if (dir)
		closedir(dir);
}

void doctor_past(struct doctor *d, enum doctor_level level)
{
	bool told = !d->alive && report_result(d, level);

	/* The result tells the cause. Without it, the processes' last words are the next best
	 * thing. */
	if (!told)
		report_all_last_words(d, level);
}
