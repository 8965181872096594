/* SPDX-License-Identifier: ISC */
#include "data/reader/data_guess.h"

#include <string.h>

#include "core/mem.h"
#include "data/data_build.h"
#include "data/reader/data_num.h"
#include "data/source/data_option.h"
#include "data/reader/data_row.h"
#include "data/reader/data_unsupported.h"

/* Two readers are close when their scores differ by less than this. */
#define CLOSE 10
/* A word that is longer is not a number. */
#define NUMBER_MAX 64u

/* ---- words ---- */

static bool ends_word(char c)
{
	return data_is_blank(c) || c == '\r' || c == '\0';
}

bool data_word_next(const char **p, struct data_word *out)
{
	while (data_is_blank(**p) || **p == '\r')
		++*p;
	out->p = *p;
	while (!ends_word(**p))
		++*p;
	out->n = (size_t)(*p - out->p);
	return out->n > 0;
}

bool data_word_is_number(struct data_word w)
{
	char text[NUMBER_MAX];
	double v;

	if (w.n == 0 || w.n >= sizeof text)
		return false;
	memcpy(text, w.p, w.n);
	text[w.n] = '\0';
	return data_num_all(text, &v);
}

bool data_word_is_pair(struct data_word w)
{
	const char *colon = memchr(w.p, ':', w.n);

	return colon && colon > w.p &&
	    data_word_is_number((struct data_word){ colon + 1, w.n - (size_t)(colon + 1 - w.p) });
}

/* Does the word have two digits below 60 at `at`? */
static bool has_sixtieth(struct data_word w, size_t at)
{
	return at + 2 <= w.n && w.p[at] >= '0' && w.p[at] < '6' && data_is_digit(w.p[at + 1]);
}

bool data_word_is_clock(struct data_word w, bool *sure)
{
	size_t hours = 0, at;

	*sure = false;
	while (hours < w.n && data_is_digit(w.p[hours]))
		hours++;
	at = hours;
	if (hours == 0 || hours > 2 ||
	    (hours == 2 && (w.p[0] > '2' || (w.p[0] == '2' && w.p[1] > '4'))))
		return false;
	for (int part = 0; part < 2 && at < w.n; part++, at += 3)
		if (w.p[at] != ':' || !has_sixtieth(w, at + 1))
			return false;
	*sure = (hours == 2 && w.p[0] == '0') || w.p[hours + 1] == '0';
	return at == w.n && at > hours;
}

/* ---- the sample ---- */

/* Adds a line, unless it is blank. */
static void add_line(struct data_sample *s, const char *p, size_t n)
{
	while (n && (data_is_blank(p[n - 1]) || p[n - 1] == '\r'))
		n--;
	if (!n)
		return;
	/* Readers of numbers may look at the bytes after the text (data_num.h). */
	s->line[s->lines] = mem_array(n + 1 + DATA_NUM_PAD, 1);
	memcpy(s->line[s->lines++], p, n);
}

/* The length of n bytes of text up to the last blank; n where there is none. */
static size_t cut_last_word(const char *p, size_t n)
{
	size_t at = n;

	while (at && !data_is_blank(p[at - 1]))
		at--;
	return at ? at : n;
}

/* Takes the sample of a file that begins with these n bytes. cut: it has more. release_sample frees it. */
static void take_sample(struct data_sample *s, const uint8_t *p, size_t n, bool cut)
{
	const char *at = (const char *)p, *end = at + n, *nl;

	*s = (struct data_sample){ .bytes = p, .n = n, .cut = cut };
	s->line = mem_array(DATA_SAMPLE_LINES, sizeof *s->line);
	for (; at < end && s->lines < DATA_SAMPLE_LINES; at = nl < end ? nl + 1 : end) {
		nl = memchr(at, '\n', (size_t)(end - at));
		if (!nl && cut && s->lines)
			break;
		if (!nl)
			nl = cut ? at + cut_last_word(at, (size_t)(end - at)) : end;
		add_line(s, at, (size_t)(nl - at));
		if (nl < end && *nl != '\n')
			break;
	}
}

static void release_sample(struct data_sample *s)
{
	for (size_t i = 0; i < s->lines; i++)
		free(s->line[i]);
	free(s->line);
}

int data_sample_score(const struct data_sample *s, int (*score)(const char *line))
{
	int sum = 0, n = 0;

	for (size_t i = 0; i < s->lines; i++) {
		int one = score(s->line[i]);

		sum += one == DATA_SCORE_SKIPPED ? 0 : one;
		n += one != DATA_SCORE_SKIPPED;
	}
	if (n == 0)
		return s->lines ? DATA_SCORE_TEXT - 1 : DATA_SCORE_NONE;
	return sum / n;
}

/* ---- the choice ---- */

/* Scores the sample by each reader that may be guessed. */
static void score_readers(const struct data_sample *s, bool table, int score[static DATA_READERS])
{
	for (size_t i = 0; i < DATA_READERS; i++) {
		score[i] = DATA_SCORE_NONE;
		if (data_readers[i]->score && !(table && data_readers[i] == &data_reader_vw))
			score[i] = data_readers[i]->score(s);
	}
}

/* The reader with the best score, but for the one to pass over; of equals the first one. */
static size_t find_best(const int score[static DATA_READERS], size_t passed_over)
{
	size_t best = passed_over == 0;

	for (size_t i = 0; i < DATA_READERS; i++)
		if (i != passed_over && score[i] > score[best])
			best = i;
	return best;
}

/* Does the reader that is known take the file, too, although another one has the best score? Text without a
 * label is no worse as a table than as fastText, but a model of one cannot use the other. */
static bool takes_known(const int score[static DATA_READERS], size_t known, size_t best)
{
	if (known >= DATA_READERS || score[best] == DATA_SCORE_NONE)
		return false;
	return score[known] + CLOSE > score[best] ||
	    (data_readers[known] == &data_reader_fasttext &&
	        data_readers[best] == &data_reader_csv);
}

/* No reader can read the bytes: says why. */
static enum err_code refuse_bytes(const struct stream *s, const uint8_t *p, size_t n, struct err *e)
{
	uint8_t control;
	size_t line;

	if (data_unsupported_has_nul(p, n, &line))
		return err_set(e, ERR_FORMAT,
		    "%s:%zu: holds a NUL byte; if this is a text file, tr -d '\\000' removes it",
		    stream_name(s), line);
	if (data_unsupported_has_control(p, n, &line, &control))
		return err_set(e, ERR_FORMAT,
		    "%s:%zu: holds the control byte 0x%02x, and is in none of the formats; if it is "
		    "text, tr -d '\\%03o' removes that byte, and ?format= names the format",
		    stream_name(s), line, control, control);
	return err_set(e, ERR_FORMAT,
	    "%s: is in none of the formats idx, npy, jsonl, fasttext, ffm, libsvm, vw, csv, ratings; "
	    "name one by ?format=",
	    stream_name(s));
}

/* Decides between two readers that are close: only one of them may know all options of the path. */
static enum err_code decide_close(const struct stream *s, const struct data_options *o,
    size_t first, size_t second, size_t *out, struct err *e)
{
	const struct data_format *f = data_formats();
	bool knows_first = !data_option_check(o, first, stream_name(s), NULL),
	     knows_second = !data_option_check(o, second, stream_name(s), NULL);

	*out = knows_first ? first : second;
	if (knows_first != knows_second)
		return ERR_OK;
	return err_set(e, ERR_FORMAT,
	    "%s: its lines can be read as %s and as %s; add ?format=%s or ?format=%s to the path",
	    stream_name(s), f[first].title, f[second].title, f[first].name, f[second].name);
}

/* Chooses among the readers by the first bytes of the stream. known: the reader of the files
 * before, or of the training data; SIZE_MAX: none. table: a table of text is expected, and a bar
 * that it begins with is a comment, and no namespace of Vowpal Wabbit. */
static enum err_code guess_by_content(struct stream *s, const struct data_options *o, size_t known,
    bool table, size_t *out, struct err *e)
{
	struct data_sample sample;
	int score[DATA_READERS];
	const uint8_t *p;
	size_t n, best, second;
	enum err_code rc = stream_peek(s, DATA_PROBE, &p, &n, e);

	if (rc != ERR_OK)
		return rc;
	if (n == 0)
		return err_set(e, ERR_FORMAT, "%s: is empty", stream_name(s));
	rc = data_unsupported_refuse(s, p, n, e);
	if (rc)
		return rc;
	take_sample(&sample, p, n, n >= DATA_PROBE);
	score_readers(&sample, table, score);
	release_sample(&sample);
	best = find_best(score, SIZE_MAX);
	if (takes_known(score, known, best))
		best = known;
	*out = best;
	if (score[best] == DATA_SCORE_NONE && best != known)
		return refuse_bytes(s, p, n, e);
	second = find_best(score, best);
	if (best == known || score[best] < DATA_SCORE_PERHAPS ||
	    score[second] < DATA_SCORE_PERHAPS || score[second] + CLOSE <= score[best])
		return ERR_OK;
	return decide_close(s, o, best, second, out, e);
}

/* ---- the choice ---- */

/* Finds a format of this name among the readers. */
static bool find_format_named(const char *name, size_t *out)
{
	for (size_t i = 0; i < DATA_READERS; i++)
		if (strcmp(data_formats()[i].name, name) == 0) {
			*out = i;
			return true;
		}
	return false;
}

/* Do the options say something about the columns of a table? */
static bool options_describe_table(const struct data_options *o)
{
	return o->label || o->columns || o->ignore || o->categories || o->id || o->missing ||
	    o->scale || o->text || o->text_weight || o->lists;
}

/* Refuses the format if its examples have no user and no item, but the model needs them. */
static enum err_code refuse_columns(const struct stream *s, size_t reader,
    const struct data_want *want, struct err *e)
{
	if (!want->tables || !data_readers[reader]->to_ratings)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "%s: is %s, but the model needs %s in each example: %s",
	    stream_name(s), data_formats()[reader].title,
	    want->pairs ? "a user and an item" : "a user, an item and a rating",
	    data_readers[reader]->to_ratings);
}

/* Finds the reader whose decision the files after it follow: that of the files before, or else of
 * the training data. SIZE_MAX: none. */
static size_t find_known_reader(const struct data_reader *before, const struct dataset *like)
{
	size_t i = 0;

	if (before)
		return data_reader_number(before);
	while (i < DATA_READERS &&
	    (!like || !like->format || strcmp(data_formats()[i].title, like->format) != 0))
		i++;
	return i < DATA_READERS ? i : SIZE_MAX;
}

enum err_code data_guess_reader(struct stream *s, const struct data_options *o,
    const struct data_want *want, const struct data_reader *before, const struct dataset *like,
    const struct data_reader **out, struct err *e)
{
	bool table = like && like->schema;
	size_t i = 0;
	enum err_code rc = stream_skip_mark(s, e);

	if (!rc && (!o->format || !find_format_named(o->format, &i))) {
		rc = guess_by_content(s, o, find_known_reader(before, like), table, &i, e);
		if (!rc && want->tables && !table && data_readers[i] == &data_reader_csv &&
		    !options_describe_table(o))
			find_format_named(want->tables, &i);
	}
	*out = rc ? NULL : data_readers[i];
	return rc ? rc : refuse_columns(s, i, want, e);
}
