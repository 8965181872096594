/* SPDX-License-Identifier: ISC */
#include "rundir/run_colour.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "rundir/rundir.h"

#define FILE_NAME "colour"

const struct run_colour run_colour[RUN_COLOURS] = {
	{ "#1f5fd0", "#79a8ff", 4 }, /* blue */
	{ "#c2410c", "#ff9b63", 1 }, /* orange; a terminal has red */
	{ "#17713b", "#6fd394", 2 }, /* green */
	{ "#a8327e", "#f08cc8", 5 }, /* magenta */
	{ "#0e7490", "#5cc8dc", 6 }, /* cyan */
	{ "#7a5200", "#f0b95b", 3 }, /* yellow */
};

/* Read the number in a run's file. False: there is none. */
static bool read_colour(const char *dir, unsigned *out)
{
	char *path = rundir_path(dir, FILE_NAME);
	struct buf text = BUF_INIT;
	bool there = file_read(path, 16, &text, NULL) == ERR_OK && text.len > 0 &&
	    text.data[0] >= '0' && text.data[0] < (uint8_t)('0' + RUN_COLOURS);

	if (there)
		*out = text.data[0] - (unsigned)'0';
	buf_release(&text);
	free(path);
	return there;
}

/* Count how many runs in a folder have each colour. */
static void count_colours(const char *folder, unsigned count[static RUN_COLOURS])
{
	DIR *d = opendir(folder);
	struct dirent *entry;
	unsigned number;

	while (d && (entry = readdir(d))) {
		char *dir;

		if (!strstr(entry->d_name, ".run"))
			continue;
		dir = path_join(folder, entry->d_name);
		if (read_colour(dir, &number))
			count[number]++;
		free(dir);
	}
	if (d)
		closedir(d);
}

void run_colour_choose(const char *dir)
{
	char *absolute = path_absolute(dir), *folder = path_dirname(absolute),
	     *path = rundir_path(dir, FILE_NAME);
	unsigned count[RUN_COLOURS] = { 0 }, best = 0;
	char text[2];

	count_colours(folder, count);
	for (unsigned i = 1; i < RUN_COLOURS; i++)
		if (count[i] < count[best])
			best = i;
	text[0] = (char)('0' + best);
	text[1] = '\n';
	file_replace(path, text, sizeof text, 0644, NULL);
	free(absolute);
	free(folder);
	free(path);
}

unsigned run_colour_of(const char *dir)
{
	char *absolute = path_absolute(dir);
	unsigned number = 0;

	for (const char *p = path_basename(absolute); *p; p++)
		number = number * 31 + (unsigned char)*p;
	number %= RUN_COLOURS;
	read_colour(dir, &number);
	free(absolute);
	return number;
}
