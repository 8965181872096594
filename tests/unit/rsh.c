/* SPDX-License-Identifier: ISC */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/launch.h"
#include "supervisor/rsh.h"
#include "tap.h"

static char dir[] = "/tmp/pskit-rsh-XXXXXX";

/* What a shell makes of the command. */
static void said(const char *command, char *out, size_t size)
{
	FILE *f = popen(command, "r");
	size_t n = f ? fread(out, 1, size - 1, f) : 0;

	out[n] = 0;
	if (f)
		pclose(f);
}

static void quoted(const char *word)
{
	struct buf b = BUF_INIT;
	char out[256];

	buf_puts(&b, "printf %s ");
	rsh_quote(word, &b);
	said((const char *)b.data, out, sizeof out);
	ok(strcmp(out, word) == 0, "%zu letters come out as they went in", strlen(word));
	buf_release(&b);
}

static void put_script(const char *path, const char *text)
{
	file_replace(path, text, strlen(text), 0700, NULL);
}

/* A host whose ps-ctl tells what it was called with. */
static void commanded(void)
{
	static const char *const args[] = { "worker-0", "--", "a b", "$(id)", "it's", "", NULL };
	char *there = mem_printf("%s/ps-ctl", dir), out[512];
	struct buf b = BUF_INIT;

	put_script(there, "#!/bin/sh\nfor a; do printf '<%s>' \"$a\"; done\n");
	rsh_command(dir, args, &b);
	said((const char *)b.data, out, sizeof out);
	ok(strcmp(out, "<remote><worker-0><--><a b><$(id)><it's><>") == 0,
	    "one command, and all its words: %s", out);
	unlink(there);
	setenv("PATH", "/usr/bin:/bin", 1);
	buf_puts(&b, " 2>&1");
	said((const char *)b.data, out, sizeof out);
	ok(strstr(out, "ps-ctl: there is no pskit on ") && strstr(out, dir), "no ps-ctl: %s", out);
	free(there);
	buf_release(&b);
}

/* A child with a line hears what it is told, and ends with the line. */
static void on_the_line(void)
{
	char *log = mem_printf("%s/log", dir), *big = mem_alloc(1 << 20);
	char *argv[] = { "/bin/sh", "-c",
		"trap '' TERM; while read -r l; do echo \"<$l>\"; done; exit 7", NULL };
	const struct launch_spec spec = { .id = "far",
		.argv = argv,
		.log_path = log,
		.die_with_parent = true,
		.line = true };
	struct launch_event how = { 0 };
	struct launch_set *set;
	struct buf text = BUF_INIT;
	struct err e = { 0 };
	size_t child;

	ok(launch_new(NULL, &set, &e) == ERR_OK && launch_start(set, &spec, &child, &e) == ERR_OK,
	    "started");
	ok(launch_tell(set, child, "one\n", 4, &e) == ERR_OK &&
	        launch_tell(set, child, "two\n", 4, &e) == ERR_OK,
	    "told twice");
	launch_signal(set, child, SIGTERM);
	ok(launch_tell(set, child, "three\n", 6, &e) == ERR_CLOSED, "after the end: %s", e.msg);
	ok(launch_wait(set, 120 * NSEC_PER_SEC, &how, &e) == ERR_OK && !how.signalled &&
	        how.status == 7,
	    "it ends of its own accord");
	file_read(log, 1000, &text, &e);
	ok(text.data && strcmp((char *)text.data, "<one>\n<two>\n<leave>\n") == 0,
	    "it has heard both, and that it is to end");
	argv[2] = "exec sleep 60";
	ok(launch_start(set, &spec, &child, &e) == ERR_OK &&
	        launch_tell(set, child, big, 1 << 20, &e) == ERR_LIMIT,
	    "one that does not listen is not waited for: %s", e.msg);
	launch_signal(set, child, SIGTERM);
	launch_signal(set, child, SIGTERM);
	ok(launch_wait(set, 120 * NSEC_PER_SEC, &how, &e) == ERR_OK && how.signalled &&
	        how.status == SIGTERM,
	    "a second SIGTERM is one");
	launch_free(set);
	buf_release(&text);
	unlink(log);
	free(log);
	free(big);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(dir))
		return 1;
	quoted("plain-word_1.2:/@x,y%");
	quoted("two words");
	quoted("it's \"quoted\" $HOME `id` \\ !");
	quoted("~");
	quoted("line\nbreak");
	commanded();
	on_the_line();
	rmdir(dir);
	return tap_done();
}
