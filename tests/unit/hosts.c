/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "conf/hosts.h"
#include "core/mem.h"
#include "tap.h"

/* "a=1 b=4" */
static char *text_of(const struct hosts *h)
{
	struct buf b = BUF_INIT;

	buf_puts(&b, "");
	for (size_t i = 0; i < h->n; i++)
		buf_printf(&b, "%s%s=%lld", i ? " " : "", h->item[i].name,
		    (long long)h->item[i].slots);
	return b.data ? (char *)b.data : mem_strdup("");
}

static void becomes(const char *line, const char *want)
{
	struct hosts h = { NULL, 0 };
	struct err e = { 0 };
	enum err_code rc = hosts_add(&h, line, &e);
	char *got = text_of(&h);

	ok(rc == ERR_OK && strcmp(got, want) == 0, "\"%s\" is \"%s\"%s%s", line, got,
	    rc ? ": " : "", e.msg);
	free(got);
	hosts_release(&h);
}

static void refused(const char *line, const char *why)
{
	struct hosts h = { NULL, 0 };
	struct err e = { 0 };

	ok(hosts_add(&h, "before slots=2", &e) == ERR_OK && hosts_add(&h, line, &e) == ERR_FORMAT &&
	        strstr(e.msg, why) && h.n == 1 && h.item[0].slots == 2,
	    "\"%s\": %s", line, e.msg);
	hosts_release(&h);
}

static void in_a_file(void)
{
	char path[] = "/tmp/pskit-hosts-XXXXXX";
	static const char text[] = "# of the lab\na slots=2\n\nb\nb   # again\n",
	                  wrong[] = "a\nb slots=0\n";
	struct hosts h = { NULL, 0 };
	struct err e = { 0 };
	int fd = mkstemp(path);
	char *got;

	file_replace(path, text, sizeof text - 1, 0600, &e);
	ok(hosts_read(&h, path, &e) == ERR_OK, "a file is read");
	got = text_of(&h);
	ok(strcmp(got, "a=2 b=2") == 0, "a line more is a slot more: %s", got);
	free(got);
	hosts_release(&h);
	file_replace(path, wrong, sizeof wrong - 1, 0600, &e);
	ok(hosts_read(&h, path, &e) == ERR_FORMAT && strstr(e.msg, ":2: "), "the line is named: %s",
	    e.msg);
	hosts_release(&h);
	file_replace(path, "\n", 1, 0600, &e);
	ok(hosts_read(&h, path, &e) == ERR_FORMAT && strstr(e.msg, "no host"), "none at all: %s",
	    e.msg);
	hosts_release(&h);
	unlink(path);
	close(fd);
	ok(hosts_read(&h, path, &e) != ERR_OK, "no file: %s", e.msg);
}

static void dealt(void)
{
	static const char *const want[] = { "a", "b", "c", "a", "c", "a", "b", "b" };
	struct hosts h = { NULL, 0 };
	char self[256] = "";

	hosts_add(&h, "a slots=3", NULL);
	hosts_add(&h, "b", NULL);
	hosts_add(&h, "c:2", NULL);
	ok(hosts_slots(&h) == 6, "six slots");
	for (size_t k = 0; k < sizeof want / sizeof *want; k++)
		ok(strcmp(hosts_nth(&h, k), want[k]) == 0, "place %zu is on %s", k,
		    hosts_nth(&h, k));
	hosts_release(&h);
	hosts_add(&h, "a slots=1", NULL);
	hosts_add(&h, "c:2", NULL);
	ok(strcmp(hosts_nth(&h, 2), "c") == 0 && !hosts_nth(&h, 3),
	    "slots that are written are a limit");
	hosts_release(&h);
	hosts_add(&h, "a", NULL);
	hosts_add(&h, "a", NULL);
	hosts_add(&h, "b", NULL);
	ok(strcmp(hosts_nth(&h, 3), "a") == 0 && strcmp(hosts_nth(&h, 4), "b") == 0,
	    "others are none");
	hosts_release(&h);
	gethostname(self, sizeof self - 1);
	ok(hosts_is_here("localhost") && hosts_is_here(self) && !hosts_is_here("nowhere.example"),
	    "this machine is known");
}

int main(void)
{
	becomes("a", "a=1");
	becomes("  me@a.example \t", "me@a.example=1");
	becomes("a slots=4", "a=4");
	becomes("a max-slots=8 slots=4 # big", "a=4");
	becomes("a:3", "a=3");
	becomes("fe80::1 slots=2", "fe80::1=2");
	becomes("n[0-2,7],m1", "n0=1 n1=1 n2=1 n7=1 m1=1");
	becomes("n[08-11] slots=2", "n08=2 n09=2 n10=2 n11=2");
	becomes("r[1-2]n[0-1]x", "r1n0x=1 r1n1x=1 r2n0x=1 r2n1x=1");
	becomes("a,b,a", "a=2 b=1");
	becomes("", "");
	becomes(" # nothing", "");
	refused("-oProxyCommand=x", "not the name");
	refused("a;reboot", "not the name");
	refused("$(id)", "not the name");
	refused("a slots=0", "1 to 4096");
	refused("a slots=many", "1 to 4096");
	refused("a cpus=4", "not a known");
	refused("a b", "not a known");
	refused("n[0-", "unclosed");
	refused("n[]", "empty brackets");
	refused("n[3-1]", "low to high");
	refused("n[x]", "neither a number");
	refused("n[0-99999999]", "low to high");
	refused("n[0-8000]m[0-8000]", "more than");
	refused("a,,b", "empty name");
	in_a_file();
	dealt();
	return tap_done();
}
