/* SPDX-License-Identifier: ISC */
/* Names of objects, the account they are spoken to with, what S3 answers, and the helper that
 * servers and workers have all that done by. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "object/account.h"
#include "object/exchange.h"
#include "core/helper.h"
#include "format/uri.h"
#include "object/xml.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void test_names(void)
{
	static const struct {
		const char *name, *bucket, *key, *url;
	} good[] = {
		{ "s3://bucket/a/b", "bucket", "a/b", NULL },
		{ "s3://bucket", "bucket", "", NULL },
		{ "s3://my.bucket_1/", "my.bucket_1", "", NULL },
		{ "s3://b/a?b#c d", "b", "a?b#c d", NULL },
		{ "https://host/x?y=z", NULL, NULL, "https://host/x?y=z" },
		{ "http://127.0.0.1:80/x", NULL, NULL, "http://127.0.0.1:80/x" },
		{ "http://LOCALHOST/x", NULL, NULL, "http://LOCALHOST/x" },
		{ "http://[::1]:9/x", NULL, NULL, "http://[::1]:9/x" },
	};
	static const char *const bad[] = {
		"s3://",
		"s3:///key",
		"s3://a b/key",
		"s3://a%2f/key",
		"ftp://host/x",
		"/a/file",
		"https://",
		"https:///x",
		"https://me:hush@host/x",
		"https://host/a b",
		"https://host/a\n",
		"http://host/x",
		"http://127.0.0.1.example.org/x",
		"http://localhost.example.org/x",
		"http://me@127.0.0.1/x",
	};

	for (size_t i = 0; i < COUNT(good); i++) {
		struct uri u;
		bool parsed = uri_parse(good[i].name, &u, NULL) == ERR_OK;

		ok(parsed &&
		        (good[i].url ? strcmp(u.url, good[i].url) == 0 && !u.bucket
		                     : !u.url && strcmp(u.bucket, good[i].bucket) == 0 &&
		                    strcmp(u.key, good[i].key) == 0),
		    "%s", good[i].name);
		uri_release(&u);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct uri u;
		struct err e = { 0 };

		ok(uri_parse(bad[i], &u, &e) == ERR_CONFIG && e.msg[0] && !strstr(e.msg, "hush") &&
		        !strchr(e.msg, '\n') && !u.bucket && !u.url,
		    "refused: %s", e.msg);
	}
}

/* A version of an object is compared by the store where it is a whole ETag. */
static void test_versions(void)
{
	char cut[OBJECT_VERSION];

	memset(cut, 'e', sizeof cut - 1);
	cut[0] = '"';
	cut[sizeof cut - 1] = '\0';
	ok(object_version_is_etag("\"5d41402abc\"") && object_version_is_etag("\"\""),
	    "a store compares an ETag");
	ok(!object_version_is_etag("W/\"5d41402abc\"") && !object_version_is_etag("") &&
	        !object_version_is_etag("\"") &&
	        !object_version_is_etag("Thu, 26 Nov 2026 14:54:15 GMT"),
	    "but none that is weak, and no time");
	ok(!object_version_is_etag(cut), "nor an ETag that was cut");
}

static void test_shown(void)
{
	struct buf out = BUF_INIT;
	char *shown = uri_shown("https://host/x?signature=secret");

	ok(strcmp(shown, "https://host/x?...") == 0, "what may be a secret is not shown");
	free(shown);
	shown = uri_shown("s3://b/what?");
	ok(strcmp(shown, "s3://b/what?") == 0, "a key is");
	free(shown);
	uri_escape(&out, "a/b c+\xc3\xbc~", true);
	ok(strcmp((char *)out.data, "a/b%20c%2B%C3%BC~") == 0, "escaped: %s", (char *)out.data);
	buf_clear(&out);
	uri_escape(&out, "a/b=", false);
	ok(strcmp((char *)out.data, "a%2Fb%3D") == 0, "slashes, too: %s", (char *)out.data);
	buf_release(&out);
	ok(uri_is_pattern("s3://b/x-*.csv") && !uri_is_pattern("s3://b/x") &&
	        !uri_is_pattern("https://h/x?y*"),
	    "patterns");
}

/* ---- the account ---- */

static bool has(const char *text, const char *section, const char *key, const char *want)
{
	char *value = object_account_ini(text, section, key);
	bool same = want ? value && strcmp(value, want) == 0 : !value;

	free(value);
	return same;
}

static void test_ini(void)
{
	static const char text[] =
	    "aws_access_key_id = outside\n[default]\r\naws_access_key_id = one\r\n# region = x\nregion=  eu-west-1\t\n"
	    "s3 =\n  region = nested\n\n[profile lab]\nregion = us-west-2\nsecret = a=b=\n[other]\nempty =\nregion";

	ok(has(text, "default", "aws_access_key_id", "one"), "a value, with the other line ends");
	ok(has(text, "default", "region", "eu-west-1"),
	    "blanks are not part of it; what is commented out is not there");
	ok(has(text, "lab", "region", "us-west-2") && has(text, "lab", "secret", "a=b="),
	    "a profile's, as config has it");
	ok(has(text, "other", "empty", "") && has(text, "other", "region", NULL) &&
	        has(text, "none", "region", NULL),
	    "not there");
	ok(has("", "default", "region", NULL), "an empty file");
}

static bool at(const struct account *a, const char *bucket, const char *key, const char *want)
{
	char *url = object_account_url(a, bucket, key);
	bool same = strcmp(url, want) == 0;

	if (!same)
		printf("# %s\n", url);
	free(url);
	return same;
}

static void test_urls(void)
{
	struct account a = { .region = (char[]){ "eu-west-1" } };

	ok(at(&a, "bucket-1", "a/b c", "https://bucket-1.s3.eu-west-1.amazonaws.com/a/b%20c"),
	    "Amazon's");
	ok(at(&a, "my.bucket", "a", "https://s3.eu-west-1.amazonaws.com/my.bucket/a"),
	    "with dots, which no certificate has");
	a.endpoint = (char[]){ "https://store:9000" };
	ok(at(&a, "bucket", "", "https://store:9000/bucket/"), "another store's");
	a.endpoint = NULL;
	a.region = (char[]){ "cn-north-1" };
	ok(at(&a, "b", "k", "https://b.s3.cn-north-1.amazonaws.com.cn/k"), "in China");
}

static void test_account(void)
{
	struct account a;
	struct err e = { 0 };

	setenv("HOME", "/nowhere", 1);
	setenv("AWS_ACCESS_KEY_ID", "key", 1);
	unsetenv("AWS_SECRET_ACCESS_KEY");
	unsetenv("AWS_PROFILE");
	ok(object_account_load(&a, &e) == ERR_AUTH && strstr(e.msg, "/nowhere/.aws/credentials"),
	    "%s", e.msg);
	setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
	setenv("AWS_ENDPOINT_URL", "https://store/", 1);
	ok(object_account_load(&a, &e) == ERR_OK && strcmp(a.region, "us-east-1") == 0 &&
	        strcmp(a.endpoint, "https://store") == 0 && !a.token,
	    "from the environment");
	object_account_release(&a);
	setenv("AWS_ENDPOINT_URL", "https://me@store", 1);
	ok(object_account_load(&a, &e) == ERR_CONFIG, "%s", e.msg);
	unsetenv("AWS_ENDPOINT_URL");
	setenv("AWS_REGION", "eu/../x", 1);
	ok(object_account_load(&a, &e) == ERR_CONFIG, "%s", e.msg);
	unsetenv("AWS_REGION");
}

/* ---- answers ---- */

static void note(void *ctx, const char *around, const char *name, const char *text)
{
	buf_printf(ctx, "%s/%s=%s;", around, name, text);
}

static enum err_code read_text(const char *text, struct buf *out)
{
	buf_clear(out);
	return object_xml_read(text, strlen(text), note, out, NULL);
}

static void test_xml(void)
{
	static const char list[] =
	    "<?xml version=\"1.0\"?><R xmlns=\"x\"><N>b</N><C><K>a&amp;b</K><S>5</S></C><C><K>&#252;</K></C><E/></R>";
	static const char laughs[] =
	    "<!DOCTYPE r [<!ENTITY a \"0123456789\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">]><R><K>&b;</K></R>";
	struct buf out = BUF_INIT, deep = BUF_INIT;
	char *value;

	ok(read_text(list, &out) == ERR_OK &&
	        strcmp((char *)out.data, "R/N=b;C/K=a&b;C/S=5;C/K=\xc3\xbc;R/E=;") == 0,
	    "leaves in their order");
	ok(read_text("<R><K>a</K>", &out) == ERR_FORMAT &&
	        read_text("not XML", &out) == ERR_FORMAT && read_text("", &out) == ERR_FORMAT,
	    "what is no XML, or not all of it");
	for (int i = 0; i < 100; i++)
		buf_puts(&deep, "<R>");
	ok(read_text((char *)deep.data, &out) == ERR_FORMAT, "nesting has an end");
	read_text(laughs, &out);
	ok(out.len < 200, "entities do not grow");
	value = object_xml_value(list, strlen(list), "K");
	ok(value && strcmp(value, "a&b") == 0, "the first of a name");
	free(value);
	ok(!object_xml_value(list, strlen(list), "none") && !object_xml_value("<K>a", 4, "K"),
	    "none");
	buf_release(&deep);
	buf_release(&out);
}

/* ---- the helper ---- */

static void write_script(const char *path, const char *text)
{
	file_replace(path, text, strlen(text), 0700, NULL);
}

/* A ps-ctl that does this, at the front of PATH. */
static void test_helper(const char *dir)
{
	static const char *const args[] = { "object", "cat", "-", NULL };
	char *path = path_join(dir, "ps-ctl"), *paths = mem_printf("%s:%s", dir, getenv("PATH")),
	     some[64];
	struct buf out = BUF_INIT;
	struct err e = { 0 };
	struct helper *h;
	size_t got;

	setenv("PATH", dir, 1);
	ok(helper_run(args, NULL, &out, &e) == ERR_NOTFOUND && strstr(e.msg, "ps-ctl"), "%s",
	    e.msg);
	setenv("PATH", paths, 1);
	write_script(path, "#!/bin/sh\nread name\necho \"$* $name\"\n");
	ok(helper_run(args, "s3://b/k", &out, &e) == ERR_OK &&
	        strcmp((char *)out.data, "object cat - s3://b/k\n") == 0,
	    "%s", (char *)out.data);
	write_script(path,
	    "#!/bin/sh\necho part\necho 'ps-ctl: warning: once more' >&2\necho 'ps-ctl: s3://b/k: no such object' >&2\nexit 4\n");
	buf_clear(&out);
	ok(helper_run(args, NULL, &out, &e) == ERR_NOTFOUND &&
	        strcmp(e.msg, "s3://b/k: no such object") == 0,
	    "its last words: %s", e.msg);
	write_script(path, "#!/bin/sh\nkill -9 $$\n");
	ok(helper_run(args, NULL, NULL, &e) == ERR_FAILED && strstr(e.msg, "signal 9"), "%s",
	    e.msg);
	write_script(path, "#!/bin/sh\necho first\nexec sleep 1000\n");
	ok(helper_start(args, NULL, &h, &e) == ERR_OK &&
	        helper_read(h, some, sizeof some, &got, &e) == ERR_OK && got == 6,
	    "what it says at once");
	ok(helper_end(h, &e) == ERR_OK,
	    "one that is not heard to its end is ended, and that is no error");
	ok(helper_start(args, NULL, &h, &e) == ERR_OK, "started");
	helper_stop(h);
	while (helper_read(h, some, sizeof some, &got, &e) == ERR_OK && got > 0)
		;
	ok(helper_end(h, &e) == ERR_FAILED && strstr(e.msg, "signal 15"), "told to stop: %s",
	    e.msg);
	write_script(path,
	    "#!/bin/sh\ni=0\nwhile [ $i -lt 5000 ]; do echo \"line $i of many that nobody reads\" >&2; i=$((i+1)); done\necho end\n");
	buf_clear(&out);
	ok(helper_run(args, NULL, &out, &e) == ERR_OK && strcmp((char *)out.data, "end\n") == 0,
	    "one that talks a lot is not kept waiting");
	buf_release(&out);
	free(paths);
	free(path);
}

int main(void)
{
	char dir[] = "/tmp/pskit-object.XXXXXX";
	/* What helpers say is passed on to stderr. */
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (!mkdtemp(dir))
		return 1;
	dup2(null, STDERR_FILENO);
	test_names();
	test_versions();
	test_shown();
	test_ini();
	test_urls();
	test_account();
	test_xml();
	test_helper(dir);
	file_remove_tree(dir, NULL);
	return tap_done();
}
