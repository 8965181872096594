#include "doctor.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/procstat.h"
#include "ctl.h"
#include "launch/launch.h"
#include "launch/rundir.h"
#include "result.h"

/* What the run directory tells of processes that are not there any more. */

/* Of "TIME NAME error TEXT" and "ps-work: TEXT" the text; NULL of any other line. */
static const char *complaint(const char *line)
{
	const char *at;

	if (strncmp(line, "ps-", 3) == 0)
		return (at = strstr(line, ": ")) ? at + 2 : NULL;
	return (at = strstr(line, " error ")) ? at + 7 : NULL;
}

char *doctor_last_words(const struct doctor *d, const char *id)
{
	char *path = d->dir ? mem_printf("%s/%s.log", d->dir, id) : NULL, *said = NULL;
	struct buf text = BUF_INIT;

	if (path)
		launch_last_words(path, &text);
	if (text.len && complaint((char *)text.data))
		said = mem_strdup(complaint((char *)text.data));
	buf_release(&text);
	free(path);
	return said;
}

/* The result has the reason of the whole; false: the run has left none. */
static bool say_result(struct doctor *d, enum doctor_level level)
{
	json_t *result = result_read(d->dir, NULL);
	const char *reason = json_str(result, "reason", "");
	bool told = result && (!result_is(result, "failed") || *reason);

	if (told && result_is(result, "failed"))
		doctor_words(d, level, DOCTOR_CAUSE, d->dir, reason);
	else if (result && !told)
		doctor_say(d, level, DOCTOR_EFFECT, "result", d->dir, "ps-ctl logs tells what was said last", "the last run never became ready");
	else if (result && *json_str(result, "unsaved", ""))
		doctor_words(d, level, DOCTOR_CAUSE, d->dir, json_str(result, "unsaved", ""));
	else if (result)
		doctor_say(d, DOCTOR_OK, DOCTOR_PLAIN, "result", d->dir, "", "the last run is %s", json_str(result, "state", "?"));
	json_decref(result);
	return told;
}

static bool is_process(const char *id)
{
	return strncmp(id, "server-", 7) == 0 || strncmp(id, "worker-", 7) == 0 || strcmp(id, "coordinator") == 0;
}

/* One that has ended in a failure, of a run that has no result, or that goes on without it. */
static void say_log(struct doctor *d, const char *id, enum doctor_level level)
{
	char *said = ctl_read_pid(d->dir, id) ? NULL : doctor_last_words(d, id);
	char text[700];

	if (said) {
		snprintf(text, sizeof text, "%s has ended: %s", id, said);
		doctor_words(d, level, DOCTOR_PLAIN, id, text);
	}
	free(said);
}

static void say_logs(struct doctor *d, enum doctor_level level)
{
	DIR *dir = opendir(d->dir);
	struct dirent *f;

	while (dir && (f = readdir(dir))) {
		char *id = path_stem(f->d_name);

		if (is_process(id) && strcmp(f->d_name + strlen(id), ".log") == 0)
			say_log(d, id, level);
		free(id);
	}
	if (dir)
		closedir(dir);
}

static void say_limit(struct doctor *d, const char *id, pid_t pid)
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

	if (rundir_is_alive(d->dir, &owner) && !ctl_supervised(d->dir))
		say_limit(d, "the coordinator", owner);
	while (dir && (f = readdir(dir))) {
		char *id = path_stem(f->d_name);

		if (is_process(id) && strcmp(f->d_name + strlen(id), ".pid") == 0)
			say_limit(d, id, ctl_read_pid(d->dir, id));
		free(id);
	}
	if (dir)
		closedir(dir);
}

void doctor_past(struct doctor *d, enum doctor_level level)
{
	bool told = !d->alive && say_result(d, level);

	/* What the result says is the cause of all. */
	if (!told)
		say_logs(d, level);
}
