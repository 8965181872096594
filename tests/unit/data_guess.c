/* SPDX-License-Identifier: ISC */
/* The format of a file is guessed by its first lines. */
#include "tap.h"

#include "core/buf.h"
#include "data/data_build.h"
#include "data/source/data_uri.h"

/* The name of the format that is guessed, or the error; to be used before the next call. like: the name of the format
 * of the training data, or NULL. */
static const char *guess(const char *text, size_t n, const char *options, const char *like)
{
	static char found[sizeof((struct err *)0)->msg];
	const struct data_want real = { 0 };
	struct dataset train = { 0 };
	const struct data_reader *reader = NULL;
	struct err e = { 0 };
	struct data_options o;
	struct stream *s = NULL;
	char path[200], *file;

	for (const struct data_format *f = data_formats(); like && f->name; f++)
		if (strcmp(f->name, like) == 0)
			train.format = f->title;
	snprintf(path, sizeof path, "x?%s", options);
	if (data_uri_parse(path, &file, &o, &e))
		return e.msg[0] ? "a wrong option" : "";
	if (!stream_memory(text, n, "text", &s, &e))
		data_guess_reader(s, &o, &real, NULL, like ? &train : NULL, &reader, &e);
	snprintf(found, sizeof found, "%s", reader ? data_reader_name(reader) : e.msg);
	stream_close(s);
	data_uri_release(&o);
	free(file);
	return found;
}

/* Checks that this text is taken for a format. */
static void is(const char *text, const char *options, const char *like, const char *format,
    const char *what)
{
	const char *found = guess(text, strlen(text), options, like);

	ok(strcmp(found, format) == 0, "%s: %s, got %s", what, format, found);
}

#define MARK "\xef\xbb\xbf"

static const struct {
	const char *format, *text;
} clear[] = {
	/* libsvm */
	{ "libsvm", "1 1:1\n0 2:1\n" },
	{ "libsvm", MARK "cat 1:1\ndog 2:1\n" },
	{ "libsvm", "1 1:0.5 3:2 # comment\n" },
	{ "libsvm", "# heading\n1\n0\n1 3:1\n" },
	{ "libsvm", "3 qid:1 1:3 2:0\n2 qid:1 1:0 2:1\n1 qid:2 1:0 2:1\n" },
	{ "libsvm", "3 qid:1\n2 qid:1 2:1\n" },
	{ "libsvm", "1:0.5 3:2\n2:1\n" },
	{ "libsvm", "-1:2.5 1:1\n+1:1 2:1\n" },
	{ "libsvm", "0,1 1:1\n1 3:7\n" },
	{ "libsvm", "1 1:10 2:20 3:30\n0 1:12 2:14 3:16\n" },
	{ "libsvm", "1\t1:1\t5:2\n0\t2:1\t7:1\n" },
	{ "libsvm", "1 12:30 13:10\n0 4:20\n1 2:10 3:10 17:20\n" },
	{ "libsvm", "1 1:1\n1 1:1\n1 junk\n1 2:x\n0 2:1 3:1\n" },
	{ "libsvm", "yes age:1.5 pay:1\nno age:1 pay:2\n" },
	/* libffm */
	{ "ffm", "1 0:1:1 1:2:1\n0 0:3:1 1:4:1\n" },
	{ "ffm", "1 0:0:0.5\n" },
	{ "ffm", "0:1:1 1:2:1\n0:3:1\n" },
	{ "ffm", "1\t0:1:1\t1:2:1\n0\t0:3:1\t1:4:1\n" },
	{ "ffm", "1:2.5 0:1:1 1:2:1\n0:1 0:3:1\n" },
	{ "ffm", "1\n0 0:1:1\n" },
	/* Vowpal Wabbit */
	{ "vw", "1 | a b\n-1 | c d\n" },
	{ "vw", "1 |M:3.28 height:1.5 length:2\n-1 |M:3.28 height:1 length:3\n" },
	{ "vw", "1 1.0 zebra|M:3.28 height:1.5\n-1 |M:3.28 height:1\n" },
	{ "vw", "1 2 'tag1 |a x y\n-1 0.5 'tag2 |b z\n" },
	{ "vw", "1 0.5 0.1 'tag|a x\n" },
	{ "vw", "'only|a x\n'tags|b y\n" },
	{ "vw", "|a x |b y\n|a z |b w\n" },
	{ "vw", "1 |a x:0.5 y |b z\n-1 |b q\n" },
	{ "vw", "1:2:0.4 | a b\n2:0.5:0.3 | c d e\n" },
	{ "vw", "0 |user u1 |item i7 |hour 12:1\n1 |user u2 |item i9 |hour 13\n" },
	/* fastText */
	{ "fasttext", "__label__pos a a a\n__label__neg b b b\n" },
	{ "fasttext", "a text here __label__pos\nanother one, longer __label__neg\n" },
	{ "fasttext", "\n\n__label__a x\n" },
	{ "fasttext", "__label__a __label__b two labels\n" },
	{ "fasttext", "__label__a\tred,green\n__label__b\tblue,black\n" },
	/* ratings */
	{ "ratings", "1::1193::5::978300760\n1::661::3::978302109\n" },
	{ "ratings", "UserID::MovieID::Rating\n1::661::3\n2::661::3.5\n" },
	{ "ratings", "ann::alien::5\nbob::brazil::4\n" },
	{ "ratings", "1::1193\n2::661\n" },
	/* JSON Lines */
	{ "jsonl", "{\"x\":1,\"y\":2}\n" },
	{ "jsonl", "\n\n{\"x\":1,\"y\":2}\n{\"x\":1,\"y\":2}\n" },
	{ "jsonl", "[\n{\"x\": 1},\n{\"x\": 2}\n]\n" },
	/* CSV */
	{ "csv", "1\t05:25\t5\n0\t06:25\t6\n1\t07:10\t7\n" },
	{ "csv", "1\t05:25\t06:30\n0\t07:10\t08:20\n" },
	{ "csv", "1 05:25 06:30\n0 07:10 08:20\n" },
	{ "csv", "1\t12:30\t14:45\n0\t13:10\t15:20\n" },
	{ "csv", "1\t05:25:10\t06:30:00\n0\t07:10:20\t08:20:11\n" },
	{ "csv", "1,05:25:10,06:30:00\n0,07:10:20,08:20:11\n" },
	{ "csv", "1 2015-01-01T05:25:00 [1;2;3] 5\n0 2015-01-02T05:25:00 [1;2;4] 6\n" },
	{ "csv", "1\t00:1B:44:11:3A:B7\t5\n0\t00:1B:44:11:3A:B8\t7\n" },
	{ "csv", "1\t00:11:22:33:44:55\t5\n0\t00:11:22:33:44:56\t7\n" },
	{ "csv", "1\t10.0.0.1:80\t10.0.0.2:443\n0\t10.0.0.3:80\t10.0.0.9:443\n" },
	{ "csv", "1\tfe80::1\t5\n0\t2001:db8::2\t6\n" },
	{ "csv", "1\thttp://a.example:80/x\t5\n0\thttps://b.example/y?z=1\t6\n" },
	{ "csv", "1,2:30,5\n0,3:15,7\n" },
	{ "csv", "label|a|b\n1|2|3\n0|3|4\n" },
	{ "csv", "1 | 2 | 3\n4 | 5 | 6\n" },
	{ "csv", "1,a|b|c,5\n0,a|c|d,6\n" },
	{ "csv", "1\ta|b\t5\n0\tb|c\t6\n" },
	{ "csv", "| a title\na,b,y\n1,2,3\n4,5,6\n" },
	{ "csv", "7\n8\n9\n" },
	{ "csv", "1 2 3\n" },
	{ "csv", "text,label\n\"two\nlines\",a\n\"more, text\",b\n" },
	{ "csv", "title;score\nAlien: part 2;8\nBrazil;9\n" },
	{ "csv", "a 3:1 b\nc 2:2 d\n" },
	{ "csv", "body,kinds,y\nthe film was seen,k1|k2,yes\na film,k2|k3,no\n" },
	{ "csv", "red wine | 5 | x\nwhite wine | 6 | y\n" },
	{ "csv", "it 'is' so,a|b,5\nit was,c|d,6\n" },
};

/* The format that is known decides where two are close. */
static void test_known(void)
{
	static const char both[] = "1 12:30 14:45\n0 13:10 15:20\n";
	static const char words[] = "red wine\nwhite wine\n";
	const char *found = guess(both, strlen(both), "", NULL);

	ok(strstr(found, "libsvm") && strstr(found, "CSV") && strstr(found, "?format=libsvm") &&
	        strstr(found, "?format=csv"),
	    "two formats are close: %s", found);
	is(both, "label=1", NULL, "csv", "an option tells");
	is(both, "index_base=1", NULL, "libsvm", "another one, too");
	is(both, "", "libsvm", "libsvm", "the training data tell");
	is(both, "", "csv", "csv", "the training data tell");
	is(words, "", NULL, "csv", "words are a table");
	is(words, "", "fasttext", "fasttext", "but text to predict after texts with labels");
	is("1,2,3\n", "", "libsvm", "csv", "another format is seen");
	is("1\n0\n", "", "libsvm", "libsvm", "rows without entries");
	found = guess("1 a|b 5\n0 c|d 6\n", 16, "", NULL);
	ok(strstr(found, "Vowpal Wabbit") && strstr(found, "CSV"), "a tag or a list: %s", found);
}

/* Lines beyond the first ones, and a line that is cut off, do not matter. */
static void test_samples(void)
{
	struct buf b = BUF_INIT;

	buf_puts(&b, "1");
	for (int i = 1; b.len < (size_t)2 * DATA_PROBE; i++)
		buf_printf(&b, " %d:%d.25", i, i);
	is((char *)b.data, "", NULL, "libsvm", "a long line");
	buf_clear(&b);
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "%d\t0%d:25\tx\n", i, i % 10);
	is((char *)b.data, "", NULL, "csv", "many lines");
	buf_release(&b);
}

int main(void)
{
	for (size_t i = 0; i < sizeof clear / sizeof clear[0]; i++) {
		const char *found = guess(clear[i].text, strlen(clear[i].text), "", NULL);

		ok(!strcmp(found, clear[i].format), "%zu: %s, got %s", i, clear[i].format, found);
	}
	test_known();
	test_samples();
	return tap_done();
}
