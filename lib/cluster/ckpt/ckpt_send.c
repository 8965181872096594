/* SPDX-License-Identifier: ISC */
#include "ckpt/write.h"

#include <inttypes.h>

#include "ckpt/names.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "format/digest.h"
#include "format/safetensors.h"

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

static enum err_code check_parts(const struct ckpt_part *parts, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		const struct ckpt_part *p = &parts[i];

		if (p->nslots > CKPT_SLOTS_MAX || p->nslots != parts[0].nslots)
			return err_set(e, ERR_FAILED,
			    "table \"%s\": partition %" PRIu32 " has %u slot%s of the update "
			    "rule, not %u",
			    p->table, p->part, p->nslots, NUM_S(p->nslots), parts[0].nslots);
		for (uint64_t k = 1; p->sparse && k < p->n; k++)
			if (p->ids[k] <= p->ids[k - 1])
				return err_set(e, ERR_FAILED,
				    "table \"%s\": partition %" PRIu32 " has row %" PRIu64
				    " behind row %" PRIu64,
				    p->table, p->part, p->ids[k], p->ids[k - 1]);
	}
	return ERR_OK;
}

/* cols: of rows of floats; 0 for integers and for dense partitions. */
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
};
enum { WORDS = 4 };

static void list_words(const struct ckpt_part *p, struct words out[static WORDS])
{
	const struct words all[WORDS] = { { ".ids", p->ids, p->n }, { ".seen", p->seen, p->n },
		{ ".life", p->life, p->nlife }, { ".live", p->live, p->nlive } };

	memcpy(out, all, sizeof all);
}

static enum err_code declare_words(struct sending *s, const struct ckpt_part *p, struct err *e)
{
	struct words x[WORDS];
	enum err_code rc = ERR_OK;

	list_words(p, x);
	for (size_t i = 0; !rc && i < WORDS; i++)
		if (i == 0 || x[i].word)
			rc = declare_tensor(s, p, SAFETENSORS_U64, x[i].suffix, x[i].n, 0, e);
	return rc;
}

static enum err_code write_words(struct sending *s, const struct ckpt_part *p, struct err *e)
{
	struct words x[WORDS];
	enum err_code rc = ERR_OK;

	list_words(p, x);
	for (size_t i = 0; !rc && i < WORDS; i++)
		if (i == 0 || x[i].word)
			rc = safetensors_put_ids(s->w, x[i].word, x[i].n, e);
	return rc;
}

/* Declare the values or the optimizer state, named by the suffix. */
static enum err_code declare_floats(struct sending *s, const struct ckpt_part *p,
    const char *suffix, struct err *e)
{
	return declare_tensor(s, p, SAFETENSORS_F32, suffix, p->n, p->sparse ? p->cols : 0, e);
}

static enum err_code write_floats(struct sending *s, const struct ckpt_part *p, const float *x,
    struct err *e)
{
	return safetensors_put(s->w, x, p->sparse ? p->n * p->cols : p->n, e);
}

/* Integers come first because they need the larger alignment. */
static enum err_code declare_params(struct sending *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < s->nparts; i++)
		if (s->parts[i].sparse)
			rc = declare_words(s, &s->parts[i], e);
	for (size_t i = 0; !rc && i < s->nparts; i++)
		rc = declare_floats(s, &s->parts[i], "", e);
	return rc;
}

static enum err_code declare_state(struct sending *s, struct err *e)
{
	enum err_code rc = ERR_OK;
	char suffix[16];

	for (size_t i = 0; i < s->nparts; i++)
		for (unsigned k = 0; !rc && k < s->parts[i].nslots; k++) {
			snprintf(suffix, sizeof suffix, ".s%u", k);
			rc = declare_floats(s, &s->parts[i], suffix, e);
		}
	return rc;
}

static enum err_code write_params(struct sending *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < s->nparts; i++)
		if (s->parts[i].sparse)
			rc = write_words(s, &s->parts[i], e);
	for (size_t i = 0; !rc && i < s->nparts; i++)
		rc = write_floats(s, &s->parts[i], s->parts[i].w, e);
	return rc;
}

static enum err_code write_optimizer_state(struct sending *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < s->nparts; i++)
		for (unsigned k = 0; !rc && k < s->parts[i].nslots; k++)
			rc = write_floats(s, &s->parts[i], s->parts[i].slot[k], e);
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

static enum err_code send_file(struct sending *s, unsigned server, bool state, json_t *files,
    struct err *e)
{
	char hex[DIGEST_HEX];
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
	digest_end(&s->digest, hex);
	if (s->begun)
		rc = s->to->end(s->to->ctx, rc, hex, e);
	if (!rc)
		json_array_append_new(files,
		    json_pack("{s:s, s:I, s:s}", "name", s->name, "size",
		        (json_int_t)safetensors_size(s->w), "blake2b", hex));
	safetensors_writer_free(s->w);
	return rc;
}

static json_t *list_last(const struct ckpt_part *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->nlast; i++)
		json_array_append_new(list, json_of_u64(p->last[i]));
	return list;
}

static json_t *describe_parts(const struct ckpt_part *parts, size_t n, unsigned server)
{
	json_t *list = json_array();
	char file[CKPT_NAME];

	ckpt_file_name(server, false, file);
	for (size_t i = 0; i < n; i++) {
		json_t *p = json_pack("[s, I, s, o, o, o]", parts[i].table,
		    (json_int_t)parts[i].part, file, json_of_u64(parts[i].version),
		    json_of_u64(parts[i].step), list_last(&parts[i]));

		if (parts[i].born || parts[i].changes)
			json_array_append_new(p, json_of_u64(parts[i].born));
		if (parts[i].changes)
			json_array_append_new(p, json_integer(1));
		json_array_append_new(list, p);
	}
	return list;
}

enum err_code ckpt_send_server(unsigned server, const struct ckpt_part *parts, size_t nparts,
    const struct ckpt_sink *to, json_t **description, struct err *e)
{
	struct sending s = { .to = to, .parts = parts, .nparts = nparts };
	json_t *files = json_array();
	enum err_code rc = check_parts(parts, nparts, e);

	*description = NULL;
	if (!rc)
		rc = send_file(&s, server, false, files, e);
	if (!rc && nparts > 0 && parts[0].nslots > 0)
		rc = send_file(&s, server, true, files, e);
	if (!rc)
		*description = json_pack("{s:O, s:o}", "files", files, "parts",
		    describe_parts(parts, nparts, server));
	json_decref(files);
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
