/* SPDX-License-Identifier: ISC */
#include "data/store/data_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/endian.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/table/data_names.h"
#include "data/source/data_option.h"
#include "data/shape/data_shape.h"
#include "data/table/data_schema.h"

#define ALIGN 64u
#define LANES (ALIGN / 8)
#define BLOCK (256u << 10)

enum word {
	MAGIC,
	LENGTH,
	SUM,
	KEY,
	MORE = KEY + 8,
	SHAPE,
	ROWS,
	COLS,
	CLASSES,
	KIND,
	WEIGHT_FACTOR,
	BASE,
	TEXT,
	TARGETS,
	TARGET_SHIFT,
	TARGET_FACTOR,
	HEADING,
	SEPARATOR,
	UNWATCHED,
	NUMBERS = 32,
	ARRAYS = NUMBERS + SHAPE_NUMBERS,
	WORDS = 48 /* their bytes are a multiple of ALIGN */
};
_Static_assert(ARRAYS + 2 * SHAPE_ARRAYS <= WORDS, "the header has room for all arrays");
enum kind {
	STORE_Y = 1,
	STORE_LABEL = 2,
	STORE_WEIGHT = 4,
	STORE_GROUP = 8,
	STORE_FEATURES = 16,
	STORE_SCHEMA = 32,
	STORE_NAMES = 64,
	STORE_ROLES = 128,
	STORE_OPTIONS = 256,
	STORE_KINDS = 512
};
/* The arrays of the file: first the arrays of the shape. */
enum part { WEIGHT = SHAPE_ARRAYS, GROUP, Y, LABEL, VALUE, NAMES, PARTS };

static const char magic[8] = "pskdata2";

/* ---- checksum ---- */

struct sum {
	uint64_t lane[LANES];
};

static void sum_begin(struct sum *s)
{
	for (unsigned i = 0; i < LANES; i++)
		s->lane[i] = rng_mix(i + 1);
}

/* Adds n bytes, a multiple of ALIGN. */
static void sum_add(struct sum *s, const void *p, size_t n)
{
	const uint8_t *at = p, *end = at + n;
	struct sum x = *s;
	uint64_t h;

	for (; at < end; at += ALIGN)
		for (unsigned i = 0; i < LANES; i++) {
			h = (x.lane[i] ^ get_le64(at + 8 * i)) * UINT64_C(0x9e3779b97f4a7c15);
			x.lane[i] = h << 29 | h >> 35;
		}
	*s = x;
}

static uint64_t sum_end(const struct sum *s)
{
	uint64_t h = 0;

	for (unsigned i = 0; i < LANES; i++)
		h = rng_mix(h ^ s->lane[i]);
	return h;
}

/* ---- what lies where ---- */

struct file_span {
	uint64_t offset, bytes;
};

static bool next_span(struct file_span *at, uint64_t n, uint64_t size, uint64_t *end)
{
	if (__builtin_mul_overflow(n, size, &at->bytes) || at->bytes > INT64_MAX / 2 ||
	    *end > INT64_MAX / 2)
		return false;
	at->offset = *end;
	*end += (at->bytes + ALIGN - 1) / ALIGN * ALIGN;
	return true;
}

/* Computes where each part lies. False when the header's numbers are impossible. */
static bool layout_spans(const uint64_t h[static WORDS], struct file_span at[static PARTS],
    uint64_t *length)
{
	const uint64_t *array = h + ARRAYS;

	*length = WORDS * 8;
	if (h[KIND] >= STORE_KINDS || h[ROWS] == 0 || h[ROWS] > UINT32_MAX ||
	    h[CLASSES] > INT32_MAX || h[TARGETS] > UINT16_MAX)
		return false;
	if (h[CLASSES] > h[TEXT] || ((h[KIND] & STORE_FEATURES) && h[COLS] > h[TEXT]))
		return false;
	for (unsigned i = 0; i < SHAPE_ARRAYS; i++)
		if (!next_span(&at[i], array[2 * i], array[2 * i + 1], length))
			return false;
	return next_span(&at[WEIGHT], h[KIND] & STORE_WEIGHT ? h[ROWS] : 0, 4, length) &&
	    next_span(&at[GROUP], h[KIND] & STORE_GROUP ? h[ROWS] : 0, 8, length) &&
	    next_span(&at[Y], h[KIND] & STORE_Y ? h[ROWS] * h[TARGETS] : 0, 4, length) &&
	    next_span(&at[LABEL], h[KIND] & STORE_LABEL ? h[ROWS] : 0, 4, length) &&
	    next_span(&at[VALUE], h[CLASSES], 8, length) &&
	    next_span(&at[NAMES], h[TEXT], 1, length);
}

/* ---- writing ---- */

static void put_name(struct buf *b, const char *name)
{
	buf_append(b, name, strlen(name) + 1);
}

/* Takes the reference. */
static void put_document(struct buf *b, json_t *o)
{
	char *text = json_text(o);

	put_name(b, text);
	free(text);
	json_decref(o);
}

static void put_names(const struct dataset *d, struct buf *b)
{
	for (const struct data_format *f = data_formats(); f->name; f++)
		if (strcmp(f->title, d->format) == 0)
			put_name(b, f->name);
	for (size_t i = 0; i < d->classes; i++)
		put_name(b, d->class_name[i]);
	for (size_t i = 0; d->feature_name && i < d->cols; i++)
		put_name(b, d->feature_name[i]);
	if (d->schema)
		put_document(b, data_schema_to_json(d->schema));
	if (d->names)
		put_document(b, data_names_to_json(d->names));
	if (d->roles)
		put_name(b, d->roles);
	if (d->options)
		put_document(b, data_option_to_json(d->options));
}

/* Fills the header of a chunk with examples. */
static void fill_header(const struct dataset *d, const struct shape_stored *stored, size_t text,
    uint64_t h[static WORDS])
{
	const char *shape = data_shape_of(d)->name;
	uint32_t factor;

	memcpy(&h[SHAPE], shape, strnlen(shape, 8));
	memcpy(&factor, &d->weight_factor, 4);
	h[ROWS] = d->rows;
	h[COLS] = d->cols;
	h[CLASSES] = d->classes;
	h[KIND] = (d->y ? STORE_Y : 0) | (d->label ? STORE_LABEL : 0) |
	    (d->weight ? STORE_WEIGHT : 0) | (d->group ? STORE_GROUP : 0) |
	    (d->feature_name ? STORE_FEATURES : 0) | (d->schema ? STORE_SCHEMA : 0) |
	    (d->names ? STORE_NAMES : 0) | (d->roles ? STORE_ROLES : 0) |
	    (d->options ? STORE_OPTIONS : 0);
	h[WEIGHT_FACTOR] = factor;
	h[BASE] = (uint64_t)(int64_t)d->index_base;
	h[TEXT] = text;
	h[TARGETS] = d->targets;
	memcpy(&h[TARGET_SHIFT], &d->target_shift, 8);
	memcpy(&h[TARGET_FACTOR], &d->target_factor, 8);
	h[HEADING] = d->reading.heading;
	h[SEPARATOR] = (uint8_t)d->reading.separator;
	h[UNWATCHED] = d->reading.unwatched;
	memcpy(&h[NUMBERS], stored->number, sizeof stored->number);
	for (unsigned i = 0; i < SHAPE_ARRAYS; i++) {
		h[ARRAYS + 2 * i] = stored->array[i].n;
		h[ARRAYS + 2 * i + 1] = stored->array[i].size;
	}
}

bool data_store_can(const struct dataset *d)
{
	return data_shape_of(d)->store;
}

static const uint8_t zeroes[ALIGN];

/* Copies the last bytes of a part, followed by zeroes. */
static void copy_tail(const void *p, uint64_t n, uint8_t out[static ALIGN])
{
	memset(out, 0, ALIGN);
	memcpy(out, (const uint8_t *)p + n / ALIGN * ALIGN, n % ALIGN);
}

/* The checksum is in the header and covers what follows, so the arrays are summed before the
 * first byte is written. The header is summed while its checksum is still 0. Each array is padded
 * with zeroes to a multiple of ALIGN bytes, in the sum as in the file. */
static enum err_code write_parts(uint64_t h[static WORDS], const void *const part[static PARTS],
    const struct file_span at[static PARTS], int fd, struct err *e)
{
	uint8_t tail[ALIGN];
	struct sum sum;
	enum err_code rc;

	sum_begin(&sum);
	sum_add(&sum, h, WORDS * 8);
	for (unsigned i = 0; i < PARTS; i++) {
		sum_add(&sum, part[i], at[i].bytes / ALIGN * ALIGN);
		if (at[i].bytes % ALIGN) {
			copy_tail(part[i], at[i].bytes, tail);
			sum_add(&sum, tail, ALIGN);
		}
	}
	h[SUM] = sum_end(&sum);
	rc = file_write_all(fd, h, WORDS * 8, e);
	for (unsigned i = 0; !rc && i < PARTS; i++) {
		rc = file_write_all(fd, part[i], at[i].bytes, e);
		if (!rc && at[i].bytes % ALIGN)
			rc = file_write_all(fd, zeroes, ALIGN - at[i].bytes % ALIGN, e);
	}
	return rc;
}

enum err_code data_store_write(const struct dataset *d, bool more,
    const char key[static DIGEST_HEX], int fd, struct err *e)
{
	uint64_t h[WORDS] = { 0 };
	const void *part[PARTS] = { NULL };
	struct file_span at[PARTS] = { { 0, 0 } };
	struct shape_stored stored = { 0 };
	struct buf text = BUF_INIT;
	enum err_code rc;

	memcpy(&h[MAGIC], magic, 8);
	memcpy(&h[KEY], key, DIGEST_HEX - 1);
	h[MORE] = more;
	h[LENGTH] = WORDS * 8;
	if (!d)
		return write_parts(h, part, at, fd, e);
	data_shape_of(d)->store(d, &stored);
	put_names(d, &text);
	fill_header(d, &stored, text.len, h);
	for (unsigned i = 0; i < SHAPE_ARRAYS; i++)
		part[i] = stored.array[i].at;
	part[WEIGHT] = d->weight;
	part[GROUP] = d->group;
	part[Y] = d->y;
	part[LABEL] = d->label;
	part[VALUE] = d->class_value;
	part[NAMES] = text.data;
	rc = layout_spans(h, at, &h[LENGTH])
	    ? write_parts(h, part, at, fd, e)
	    : err_set(e, ERR_LIMIT, "the data are too large for a file");
	buf_release(&text);
	return rc;
}

/* ---- reading ---- */

static enum err_code fail_damaged(struct err *e, const char *why)
{
	return err_set(e, ERR_FORMAT, "%s", why);
}

/* Verifies the checksum by reading, not through the map: a disk error is an error here, and not a
 * signal. */
static enum err_code check_sum(int fd, const uint64_t h[static WORDS], struct err *e)
{
	uint8_t *block = mem_try_array(BLOCK, 1);
	uint64_t clear[WORDS], left = h[LENGTH] - sizeof(clear);
	enum err_code rc = block ? ERR_OK : err_set(e, ERR_NOMEM, "no memory");
	struct sum sum;
	size_t n;

	memcpy(clear, h, sizeof(clear));
	clear[SUM] = 0;
	sum_begin(&sum);
	sum_add(&sum, clear, sizeof(clear));
	for (; !rc && left > 0; left -= n) {
		n = left < BLOCK ? left : BLOCK;
		rc = file_read_all(fd, block, n, e);
		if (!rc)
			sum_add(&sum, block, n);
	}
	free(block);
	if (!rc && sum_end(&sum) != h[SUM])
		return fail_damaged(e, "its checksum is wrong");
	return rc;
}

/* Reads the header and checks owner, key, length and checksum of the file. */
static enum err_code check_store_header(int fd, const char *key, uint64_t h[static WORDS],
    struct file_span at[static PARTS], struct err *e)
{
	struct stat st;
	uint64_t length;
	enum err_code rc;

	if (fstat(fd, &st) != 0)
		return err_sys(e, ERR_IO, "cannot read its status");
	if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0))
		return fail_damaged(e, "it is not a regular file of this user");
	if (st.st_size < (off_t)(WORDS * 8))
		return fail_damaged(e, "it is cut off");
	rc = file_read_all(fd, h, WORDS * 8, e);
	if (rc)
		return rc;
	if (memcmp(&h[MAGIC], magic, 8) != 0)
		return fail_damaged(e, "it does not begin with the magic number");
	if (memcmp(&h[KEY], key, DIGEST_HEX - 1) != 0)
		return fail_damaged(e, "it belongs to other data");
	length = WORDS * 8;
	if ((h[ROWS] && !layout_spans(h, at, &length)) || length != h[LENGTH] || h[MORE] > 1)
		return fail_damaged(e, "its header is invalid");
	if ((uint64_t)st.st_size != length)
		return fail_damaged(e,
		    (uint64_t)st.st_size < length ? "it is cut off"
		                                  : "it is longer than its header announces");
	return check_sum(fd, h, e);
}

/* The next name as a new string; NULL at the end. */
static char *take_name(const char **p, const char *end)
{
	const char *name = *p, *nul = memchr(name, '\0', (size_t)(end - name));

	*p = nul ? nul + 1 : end;
	return nul ? mem_strdup(name) : NULL;
}

/* The JSON document at *p, a new reference; NULL when it is damaged. */
static json_t *take_document(const char **p, const char *end)
{
	char *text = take_name(p, end);
	json_t *o = text ? json_parse(text, strlen(text), SIZE_MAX, NULL) : NULL;

	free(text);
	return o;
}

/* The schema at *p; NULL when it is damaged. */
static struct data_schema *take_schema(const char **p, const char *end)
{
	json_t *o = take_document(p, end);
	struct data_schema *s = NULL;

	if (o && data_schema_from_json(o, &s, NULL))
		s = NULL;
	json_decref(o);
	return s;
}

/* The names of hashed features at *p; NULL when they are damaged. */
static struct data_names *take_hashed_names(const char **p, const char *end)
{
	json_t *o = take_document(p, end);
	struct data_names *n = o ? data_names_from_json(o) : NULL;

	json_decref(o);
	return n;
}

/* The options at *p; NULL when they are damaged. */
static struct data_options *take_options(const char **p, const char *end)
{
	json_t *json = take_document(p, end);
	struct data_options *o = NULL;

	if (json)
		data_option_from_json(json, &o, NULL);
	json_decref(json);
	return o;
}

/* The text has the format's name, then all classes, all features, the schema, the names of hashed
 * features, the roles of columns and the options. False: there are fewer or more names than the
 * header says, or the format is unknown; what was read stays with d. */
static bool read_names(struct dataset *d, const char *p, size_t n, uint64_t kind)
{
	bool features = kind & STORE_FEATURES;
	const char *end = p + n;
	char *format = take_name(&p, end);

	for (const struct data_format *f = data_formats(); format && f->name; f++)
		if (strcmp(f->name, format) == 0)
			d->format = f->title;
	free(format);
	d->class_name = d->classes ? mem_array(d->classes, sizeof(*d->class_name)) : NULL;
	for (size_t i = 0; i < d->classes; i++)
		if (!(d->class_name[i] = take_name(&p, end)))
			return false;
	d->feature_name = features ? mem_array(d->cols, sizeof(*d->feature_name)) : NULL;
	for (size_t i = 0; features && i < d->cols; i++)
		if (!(d->feature_name[i] = take_name(&p, end)))
			return false;
	if (kind & STORE_SCHEMA && !(d->schema = take_schema(&p, end)))
		return false;
	if (kind & STORE_NAMES && !(d->names = take_hashed_names(&p, end)))
		return false;
	if (kind & STORE_ROLES && !(d->roles = take_name(&p, end)))
		return false;
	if (kind & STORE_OPTIONS && !(d->options = take_options(&p, end)))
		return false;
	return d->format && p == end;
}

/* A part of the mapped file; NULL when it does not exist. */
static void *mapped_part(const struct dataset *d, const struct file_span *at, bool there)
{
	return there ? (uint8_t *)d->memory.map + at->offset : NULL;
}

/* Points the arrays of the shape into the mapped file. False: they do not fit together, or there is
 * no such shape. */
static bool map_shape(struct dataset *d, const uint64_t h[static WORDS],
    const struct file_span at[static PARTS])
{
	const struct data_shape *shape = data_shape_named((const char *)&h[SHAPE]);
	struct shape_stored stored;

	memcpy(stored.number, &h[NUMBERS], sizeof stored.number);
	for (unsigned i = 0; i < SHAPE_ARRAYS; i++) {
		uint64_t size = h[ARRAYS + 2 * i + 1];

		stored.array[i] = (struct shape_array){ mapped_part(d, &at[i], size > 0),
			h[ARRAYS + 2 * i], size };
	}
	return shape && shape->load && shape->load(d, &stored);
}

/* Points the dataset's arrays into the mapped file. False: they do not fit together; batches are
 * gathered without further checks. */
static bool map_arrays(struct dataset *d, const uint64_t h[static WORDS],
    const struct file_span at[static PARTS])
{
	uint32_t factor = (uint32_t)h[WEIGHT_FACTOR];
	bool good;

	memcpy(&d->weight_factor, &factor, 4);
	d->rows = h[ROWS];
	d->cols = h[COLS];
	d->classes = h[CLASSES];
	d->targets = h[TARGETS];
	memcpy(&d->target_shift, &h[TARGET_SHIFT], 8);
	memcpy(&d->target_factor, &h[TARGET_FACTOR], 8);
	d->reading.heading = h[HEADING];
	d->reading.separator = (char)h[SEPARATOR];
	d->reading.unwatched = h[UNWATCHED];
	d->index_base = (int)(int64_t)h[BASE];
	d->weight = mapped_part(d, &at[WEIGHT], h[KIND] & STORE_WEIGHT);
	d->group = mapped_part(d, &at[GROUP], h[KIND] & STORE_GROUP);
	d->y = mapped_part(d, &at[Y], h[KIND] & STORE_Y);
	d->label = mapped_part(d, &at[LABEL], h[KIND] & STORE_LABEL);
	d->class_value = mapped_part(d, &at[VALUE], d->classes > 0);
	good = map_shape(d, h, at);
	for (size_t r = 0; d->label && r < d->rows; r++)
		good &= (uint32_t)d->label[r] < d->classes;
	return good && (d->label || (d->y && d->targets > 0)) && (!d->label || d->classes > 0) &&
	    read_names(d, (const char *)d->memory.map + at[NAMES].offset, h[TEXT], h[KIND]);
}

/* O_NONBLOCK keeps open() from hanging if somebody put a FIFO there, and O_NOFOLLOW refuses
 * links. */
static enum err_code open_stored(const char *path, int *fd, struct err *e)
{
	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (*fd >= 0)
		return ERR_OK;
	return err_sys(e,
	    errno == ENOENT                         ? ERR_NOTFOUND
	        : errno == ELOOP || errno == EACCES ? ERR_FORMAT
	                                            : ERR_IO,
	    "it cannot be opened");
}

/* The descriptor is closed after mapping: the mapping stays valid when the file is replaced or
 * removed. */
enum err_code data_store_map(const char *path, const char key[static DIGEST_HEX],
    struct dataset **out, bool *more, struct err *e)
{
	struct dataset *d = NULL;
	struct file_span at[PARTS];
	uint64_t h[WORDS];
	enum err_code rc;
	void *map = NULL;
	int fd;

	*out = NULL;
	rc = open_stored(path, &fd, e);
	if (rc)
		return rc;
	rc = check_store_header(fd, key, h, at, e);
	if (!rc && h[ROWS]) {
		map = mmap(NULL, h[LENGTH], PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
		if (map == MAP_FAILED)
			rc = err_sys(e, ERR_IO, "it cannot be mapped");
	}
	close(fd);
	*more = !rc && h[MORE];
	if (rc || !h[ROWS])
		return rc;
	d = mem_alloc(sizeof(*d));
	d->memory.map = map;
	d->memory.map_len = h[LENGTH];
	if (!map_arrays(d, h, at)) {
		dataset_free(d);
		return fail_damaged(e, "its arrays are inconsistent");
	}
	*out = d;
	return ERR_OK;
}
