/* SPDX-License-Identifier: ISC */
#include "format/tfevents.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "tap.h"

/* The only file in dir, and its name. */
static struct buf contents(const char *dir, char *name, size_t n)
{
	struct buf out = BUF_INIT;
	struct dirent *d;
	DIR *all = opendir(dir);
	char *path;

	while (all && (d = readdir(all)))
		if (d->d_name[0] != '.') {
			snprintf(name, n, "%s", d->d_name);
			path = mem_printf("%s/%s", dir, name);
			file_read(path, 1 << 20, &out, NULL);
			unlink(path);
			free(path);
		}
	closedir(all);
	return out;
}

/* One scalar of a fixed time and step, by the descriptions of tensorflow.Event and of protobuf's
 * encoding.  tests/lib/tfevents.py checks the CRCs of larger ones. */
static const uint8_t golden[] = {
	/* the length and its CRC, which is looked at elsewhere */
	0x1a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x09, 0, 0, 0, 0, 0, 0, 0xf8,
	0x3f,                                                       /* wall_time 1.5 */
	0x10, 0xac, 0x02,                                           /* step 300 */
	0x2a, 0x0c,                                                 /* summary */
	0x0a, 0x0a, 0x0a, 0x03, 'a', '/', 'b', 0x15, 0, 0, 0, 0x3f, /* value: tag, 0.5 */
};

static void test_bytes(const char *dir)
{
	struct tfevents *t = NULL;
	struct err e = { 0 };
	char name[256] = "";
	struct buf b;
	size_t first;

	ok(tfevents_open(dir, &t, &e) == ERR_OK, "a file is made");
	tfevents_begin(t, 1.5, 300);
	tfevents_scalar(t, "a/b", 0.5);
	tfevents_scalar(t, "nan", (double)NAN);
	tfevents_scalar(t, "large", 1e300);
	ok(tfevents_end(t, &e) == ERR_OK, "an event is written");
	tfevents_begin(t, 2, 301);
	ok(tfevents_end(t, &e) == ERR_OK, "one without values is not");
	tfevents_close(t);
	b = contents(dir, name, sizeof name);
	ok(strncmp(name, "events.out.tfevents.", 20) == 0 &&
	        strspn(name + 20, "0123456789") == 10 && name[30] == '.',
	    "the name is one that TensorBoard looks for: %s", name);
	/* The version's record: 12 + 9 + 2 + 13 + 4 bytes. */
	first = 40;
	ok(b.len == first + sizeof golden + 4 && b.data[0] == 24 &&
	        memcmp(b.data + 12 + 9,
	            "\x1a\x0d"
	            "brain.Event:2",
	            15) == 0,
	    "the version comes first");
	ok(memcmp(b.data + first, golden, 8) == 0 &&
	        memcmp(b.data + first + 12, golden + 12, sizeof golden - 12) == 0,
	    "an event's bytes, without what is not finite");
	buf_release(&b);
}

/* All event files of TensorFlow begin with the same bytes: their first record is as long. */
static void test_crc(const char *dir)
{
	static const uint8_t want[4] = { 0xa3, 0x7f, 0x4b, 0x22 };
	struct tfevents *t = NULL;
	struct err e = { 0 };
	char name[256];
	struct buf b;

	tfevents_open(dir, &t, &e);
	tfevents_close(t);
	b = contents(dir, name, sizeof name);
	ok(b.len == 40 && memcmp(b.data + 8, want, 4) == 0,
	    "the masked CRC of the length 24 is %02x%02x%02x%02x", b.data[8], b.data[9], b.data[10],
	    b.data[11]);
	buf_release(&b);
}

static void test_refused(void)
{
	struct tfevents *t = NULL;
	struct err e = { 0 };

	ok(tfevents_open("/nonexistent", &t, &e) == ERR_IO && !t &&
	        strstr(e.msg, "/nonexistent/events.out"),
	    "no directory: %s", e.msg);
	tfevents_close(NULL);
}

int main(void)
{
	char dir[] = "/tmp/pskit-tfevents.XXXXXX";

	if (!mkdtemp(dir))
		return 1;
	test_bytes(dir);
	test_crc(dir);
	test_refused();
	rmdir(dir);
	return tap_done();
}
