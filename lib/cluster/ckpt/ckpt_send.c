/* SPDX-License-Identifier: ISC */
#include "ckpt/write.h"

#include <inttypes.h>

#include "ckpt/names.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "format/digest.h"
#include "format/safetensors.h"
#include "msg/manifest.h"

/* One file being sent. safetensors wants all tensors declared before the first values. */
struct sending {
	const struct ckpt_sink *to;
	const struct ckpt_part *parts;
	size_t nparts;
	struct safetensors_writer *w;
	char name[CKPT_NAME];
	bool begun;
	struct digest digest;
};

static enum err_code check_ids(const struct ckpt_part *p, struct err *e)
{
	for (uint64_t k = 1; p->sparse && k < p->n; k++)
		if (p->ids[k] <= p->ids[k - 1])
			return err_set(e, ERR_FAILED,
			    "table \"%s\": partition %" PRIu32 " has row %" PRIu64 " after "
			    "row %" PRIu64,
			    p->table, p->part, p->ids[k], p->ids[k - 1]);
	return ERR_OK;
}

static enum err_code check_parts(const struct ckpt_part *parts, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		const struct ckpt_part *p = &parts[i], *before = i ? p - 1 : p;
		/* The partitions of a table are neighbours in the list. */
		unsigned want = strcmp(p->table, before->table) == 0 ? before->nvectors
		                                                     : p->nvectors;

		if (p->nvectors > CKPT_VECTORS_MAX || p->nvectors != want)
			return err_set(e, ERR_FAILED,
			    "table \"%s\": partition %" PRIu32 " has %u vector%s of the update "
			    "rule, not %u",
			    p->table, p->part, p->nvectors, NUM_S(p->nvectors), want);
		if (!p->rows && check_ids(p, e))
			return e->code;
	}
	return ERR_OK;
}

/* Gets the part with its arrays, for end_part. */
static enum err_code begin_part(const struct ckpt_part *p, struct ckpt_part *out, struct err *e)
{
	*out = *p;
	return p->rows ? p->rows->load(p->rows, out, e) : ERR_OK;
}

static void end_part(struct ckpt_part *p)
{
	if (p->rows)
		p->rows->unload(p->rows, p);
}

/* cols: the number of floats in a row; 0 for integers and for dense partitions. */
static enum err_code declare_tensor(struct sending *s, const struct ckpt_part *p,
    enum safetensors_type type, const char *suffix, uint64_t n, uint32_t cols, struct err *e)
{
	char *name = mem_printf("%s.%" PRIu32 "%s", p->table, p->part, suffix);
	uint64_t shape[2] = { n, cols };
	enum err_code rc = safetensors_add(s->w, name, type, shape, cols ? 2 : 1, e);

	free(name);
	return rc;
}

/* The integer tensors that a sparse partition may have, in the order of the file. */
struct words {
	const char *suffix;
	const uint64_t *word;
	uint64_t n;
	bool exists;
};
enum { WORDS = 4 };

static void list_words(const struct ckpt_part *p, struct words out[static WORDS])
{
	const struct words all[WORDS] = { { ".ids", p->ids, p->n, true },
		{ ".seen", p->seen, p->n, p->rows ? p->rows->dated : p->seen != NULL },
		{ ".life", p->policy_words, p->npolicy_words, p->policy_words != NULL },
		{ ".live", p->live, p->nlive, p->live != NULL } };

	memcpy(out, all, sizeof all);
}

static enum err_code declare_words(struct sending *s, const struct ckpt_part *p, struct err *e)
{
	struct words x[WORDS];
	enum err_code rc = ERR_OK;

	list_words(p, x);
	for (size_t i = 0; !rc && i < WORDS; i++)
		if (x[i].exists)
			rc = declare_tensor(s, p, SAFETENSORS_U64, x[i].suffix, x[i].n, 0, e);
	return rc;
}

static enum err_code write_words(struct sending *s, const struct ckpt_part *p, struct err *e)
{
	struct ckpt_part loaded;
	struct words x[WORDS];
	enum err_code rc = begin_part(p, &loaded, e);

	if (rc)
		return rc;
	list_words(&loaded, x);
	rc = p->rows ? check_ids(&loaded, e) : ERR_OK;
	for (size_t i = 0; !rc && i < WORDS; i++)
		if (x[i].exists)
			rc = safetensors_put_ids(s->w, x[i].word, x[i].n, e);
	end_part(&loaded);
	return rc;
}

/* Declare the values or a vector of optimizer state, named by the suffix. cols: floats of a sparse
 * row in it. */
static enum err_code declare_floats(struct sending *s, const struct ckpt_part *p,
    enum element_type element, const char *suffix, uint32_t cols, struct err *e)
{
	return declare_tensor(s, p, safetensors_type_of(element), suffix, p->n,
	    p->sparse ? cols : 0, e);
}

static enum err_code write_floats(struct sending *s, const struct ckpt_part *p, const float *x,
    uint32_t cols, struct err *e)
{
	return safetensors_put(s->w, x, p->sparse ? p->n * cols : p->n, e);
}

typedef enum err_code part_fn(struct sending *s, const struct ckpt_part *p, struct err *e);

/* Calls fn for each partition, for partitions of narrow values last: the others need a larger
 * alignment. */
static enum err_code each_part(struct sending *s, part_fn *fn, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (int narrow = 0; narrow < 2; narrow++)
		for (size_t i = 0; !rc && i < s->nparts; i++)
			if ((s->parts[i].values != ELEMENT_f32) == narrow)
				rc = fn(s, &s->parts[i], e);
	return rc;
}

static enum err_code declare_values(struct sending *s, const struct ckpt_part *p, struct err *e)
{
	return declare_floats(s, p, p->values, "", p->cols, e);
}

static enum err_code write_values(struct sending *s, const struct ckpt_part *p, struct err *e)
{
	struct ckpt_part loaded;
	enum err_code rc = begin_part(p, &loaded, e);

	if (rc)
		return rc;
	rc = write_floats(s, &loaded, loaded.w, p->cols, e);
	end_part(&loaded);
	return rc;
}

/* Integers come first because they need the largest alignment. */
static enum err_code declare_params(struct sending *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < s->nparts; i++)
		if (s->parts[i].sparse)
			rc = declare_words(s, &s->parts[i], e);
	return rc ? rc : each_part(s, declare_values, e);
}

static enum err_code declare_state(struct sending *s, struct err *e)
{
	enum err_code rc = ERR_OK;
	char suffix[16];

	for (size_t i = 0; i < s->nparts; i++)
		for (unsigned k = 0; !rc && k < s->parts[i].nvectors; k++) {
			snprintf(suffix, sizeof suffix, ".s%u", k);
			rc = declare_floats(s, &s->parts[i], ELEMENT_f32, suffix,
			    s->parts[i].vector_cols[k], e);
		}
	return rc;
}

static enum err_code write_params(struct sending *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < s->nparts; i++)
		if (s->parts[i].sparse)
			rc = write_words(s, &s->parts[i], e);
	return rc ? rc : each_part(s, write_values, e);
}

static enum err_code write_state_of_part(struct sending *s, const struct ckpt_part *p,
    struct err *e)
{
	struct ckpt_part loaded;
	enum err_code rc = begin_part(p, &loaded, e);

	if (rc)
		return rc;
	for (unsigned k = 0; !rc && k < p->nvectors; k++)
		rc = write_floats(s, &loaded, loaded.vector[k], p->vector_cols[k], e);
	end_part(&loaded);
	return rc;
}

static enum err_code write_optimizer_state(struct sending *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < s->nparts; i++)
		if (s->parts[i].nvectors)
			rc = write_state_of_part(s, &s->parts[i], e);
	return rc;
}

/* The sink's begin needs the file's size, which is known when the first bytes come. */
static enum err_code send_piece_of_file(void *ctx, const void *p, size_t n, struct err *e)
{
	struct sending *s = ctx;
	enum err_code rc;

	if (!s->begun) {
		rc = s->to->begin(s->to->ctx, s->name, safetensors_size(s->w), e);
		if (rc)
			return rc;
		s->begun = true;
	}
	digest_add(&s->digest, p, n);
	return s->to->put(s->to->ctx, p, n, e);
}

/* The file as the description has it. */
struct sent_file {
	char name[CKPT_NAME], hex[DIGEST_HEX];
	int64_t size;
};

static enum err_code send_file(struct sending *s, unsigned server, bool state,
    struct sent_file *sent, struct err *e)
{
	enum err_code rc;

	ckpt_file_name(server, state, s->name);
	s->begun = false;
	s->w = safetensors_writer_new();
	safetensors_add_meta(s->w, "format", "pskit checkpoint");
	digest_begin(&s->digest);
	rc = state ? declare_state(s, e) : declare_params(s, e);
	if (!rc)
		rc = safetensors_begin(s->w, send_piece_of_file, s, e);
	if (!rc)
		rc = state ? write_optimizer_state(s, e) : write_params(s, e);
	if (!rc)
		rc = safetensors_end(s->w, e);
	digest_end(&s->digest, sent->hex);
	if (s->begun)
		rc = s->to->end(s->to->ctx, rc, sent->hex, e);
	snprintf(sent->name, sizeof sent->name, "%s", s->name);
	sent->size = (int64_t)safetensors_size(s->w);
	safetensors_writer_free(s->w);
	return rc;
}

/* Has any partition optimizer state? */
static bool have_state(const struct ckpt_part *parts, size_t n)
{
	size_t i = 0;

	while (i < n && !parts[i].nvectors)
		i++;
	return i < n;
}

static json_t *describe_server(const struct sent_file *sent, size_t nsent,
    const struct ckpt_part *parts, size_t n)
{
	struct manifest_described *part = mem_array(n, sizeof *part);
	struct manifest_file file[2];
	json_t *description;

	for (size_t i = 0; i < nsent; i++)
		file[i] = (struct manifest_file){ .name = sent[i].name,
			.size = sent[i].size,
			.blake2b = sent[i].hex };
	for (size_t i = 0; i < n; i++)
		part[i] = (struct manifest_described){ .table = parts[i].table,
			.file = sent[0].name,
			.part = parts[i].part,
			.delta = parts[i].changes,
			.state = { .version = parts[i].version,
			    .step = parts[i].step,
			    .born = parts[i].born,
			    .last = parts[i].last,
			    .nlast = parts[i].nlast } };
	description = manifest_description_encode(file, nsent, part, n);
	free(part);
	return description;
}

enum err_code ckpt_send_server(unsigned server, const struct ckpt_part *parts, size_t nparts,
    const struct ckpt_sink *to, json_t **description, struct err *e)
{
	struct sending s = { .to = to, .parts = parts, .nparts = nparts };
	struct sent_file sent[2];
	size_t nsent = have_state(parts, nparts) ? 2 : 1;
	enum err_code rc = check_parts(parts, nparts, e);

	*description = NULL;
	for (size_t i = 0; !rc && i < nsent; i++)
		rc = send_file(&s, server, i == 1, &sent[i], e);
	if (!rc)
		*description = describe_server(sent, nsent, parts, nparts);
	return rc;
}

/* ---- into a directory ---- */

struct local {
	const char *dir;
	struct ckpt_receive *file;
};

static enum err_code local_begin(void *ctx, const char *name, uint64_t size, struct err *e)
{
	struct local *l = ctx;

	return ckpt_receive_begin(l->dir, name, size, false, &l->file, e);
}

static enum err_code local_put(void *ctx, const void *p, size_t n, struct err *e)
{
	struct local *l = ctx;

	return ckpt_receive_put(l->file, p, n, e);
}

static enum err_code local_end(void *ctx, enum err_code rc, const char *blake2b, struct err *e)
{
	struct local *l = ctx;

	return ckpt_receive_end(l->file, rc, blake2b, e);
}

enum err_code ckpt_write_server(const char *dir, unsigned server, const struct ckpt_part *parts,
    size_t nparts, json_t **description, struct err *e)
{
	struct local l = { .dir = dir };
	struct ckpt_sink sink = { &l, local_begin, local_put, local_end };

	return ckpt_send_server(server, parts, nparts, &sink, description, e);
}
