#include "work/params.h"

#include <math.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/safetensors.h"
#include "kern/vec.h"

static enum err_code room(struct params *p, size_t i, size_t floats, struct err *e)
{
	if (floats <= p->cap[i])
		return ERR_OK;
	free(p->w[i]);
	free(p->g[i]);
	p->cap[i] = floats + floats / 4;
	p->w[i] = mem_try_array(p->cap[i], sizeof **p->w);
	p->g[i] = mem_try_array(p->cap[i], sizeof **p->g);
	if (!p->w[i] || !p->g[i])
		return err_set(e, ERR_NOMEM, "no memory for %zu parameters of table \"%s\"", floats, p->job->table[i].name);
	return ERR_OK;
}

/* Gradients that are reduced go as one vector; tables begin at multiples of 64 bytes. */
static enum err_code lay_flat(struct params *p, struct err *e)
{
	size_t at = 0;

	for (size_t i = 0; i < p->job->ntables; i++)
		if (p->table[i]->reduced)
			p->nflat += (table_elements(p->table[i]) + 15) / 16 * 16;
	if (!p->nflat)
		return ERR_OK;
	p->flat = mem_try_array(p->nflat, sizeof *p->flat);
	if (!p->flat)
		return err_set(e, ERR_NOMEM, "no memory for a gradient of %zu values", p->nflat);
	for (size_t i = 0; i < p->job->ntables; i++)
		if (p->table[i]->reduced) {
			free(p->g[i]);
			p->g[i] = p->flat + at;
			at += (table_elements(p->table[i]) + 15) / 16 * 16;
		}
	return ERR_OK;
}

enum err_code params_new(const struct job *job, struct client *client, struct params *out, struct err *e)
{
	size_t n = job->ntables;
	enum err_code rc = ERR_OK;

	*out = (struct params){ .job = job, .client = client, .norm = -1, .norm_wanted = true };
	out->table = mem_array(n, sizeof *out->table);
	out->w = mem_array(n, sizeof *out->w);
	out->g = mem_array(n, sizeof *out->g);
	out->kept = mem_array(n, sizeof *out->kept);
	out->cap = mem_array(n, sizeof *out->cap);
	for (size_t i = 0; !rc && i < n; i++) {
		const struct model_table *m = &job->table[i];

		out->table[i] = layout_find(client_layout(client), m->name);
		if (!out->table[i])
			rc = err_set(e, ERR_NOTFOUND, "the cluster has no table \"%s\"", m->name);
		else
			rc = room(out, i, m->sparse ? m->cols : m->rows * m->cols, e);
	}
	if (!rc)
		rc = lay_flat(out, e);
	if (rc)
		params_release(out);
	return rc;
}

void params_release(struct params *p)
{
	for (size_t i = 0; p->job && i < p->job->ntables; i++) {
		free(p->w[i]);
		/* The layout may be gone by now. */
		if (!p->flat || p->job->table[i].sparse)
			free(p->g[i]);
		free(p->kept[i]);
	}
	free((void *)p->table);
	free(p->flat);
	free(p->kept);
	free(p->w);
	free(p->g);
	free(p->cap);
	*p = (struct params){ 0 };
}

/* What is good stays; the table is pulled to the other place. */
static enum err_code keep(struct params *p, struct err *e)
{
	for (size_t i = 0; i < p->job->ntables; i++) {
		float *old = p->kept[i];

		if (p->job->table[i].sparse)
			continue;
		if (!old)
			old = mem_try_array(p->cap[i], sizeof *old);
		if (!old)
			return err_set(e, ERR_NOMEM, "no memory for a second copy of table \"%s\"", p->job->table[i].name);
		p->kept[i] = p->w[i];
		p->w[i] = old;
	}
	p->fresh = false;
	p->any = p->aside = true;
	return ERR_OK;
}

void params_good(struct params *p, uint64_t step)
{
	p->kept_step = step;
	p->fresh = true;
}

/* May a pull build on what is here?  Outside of the steps parameters are exact; what is
 * here may not be. */
static bool may_build(const struct params *p, uint64_t step)
{
	return p->job->conf.pull_delta && (step != CLIENT_NOW || strcmp(p->job->conf.pull_codec, "raw") == 0);
}

/* What the last pull has brought, where the next may build on it. */
static const float *base_of(const struct params *p, size_t i, uint64_t step)
{
	if (!p->pulled || !may_build(p, step))
		return NULL;
	return p->aside ? p->kept[i] : p->w[i];
}

enum err_code params_ask(struct params *p, uint64_t step, bool early, struct err *e)
{
	enum err_code rc = p->fresh ? keep(p, e) : ERR_OK;

	for (size_t i = 0; !rc && i < p->job->ntables; i++)
		if (!p->job->table[i].sparse)
			rc = client_want_parts(p->client, p->table[i], step, early, 0, p->table[i]->nparts, base_of(p, i, step),
			    p->w[i], e);
	p->asked = true;
	p->asked_step = step;
	return rc;
}

bool params_has_rows(const struct params *p, const struct batch *b)
{
	return b->sparse || p->rows;
}

/* Of a sparse table: how many, and which. */
static size_t rows_of(const struct params *p, const struct batch *b, size_t i, const uint64_t **id)
{
	*id = p->rows ? p->rows[i].id : b->id;
	return p->rows ? p->rows[i].n : b->nids;
}

enum err_code params_pull(struct params *p, const struct batch *b, uint64_t step, bool dense, struct err *e)
{
	enum err_code rc = ERR_OK;

	/* Steps were left out since: what was asked for is of before. */
	if (p->asked && p->asked_step != step) {
		rc = client_wait(p->client, step, e);
		p->asked = p->aside = false;
	}
	dense &= !p->asked;
	if (!rc && dense && p->fresh)
		rc = keep(p, e);
	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		const uint64_t *id;
		size_t n;

		if (!p->job->table[i].sparse) {
			if (dense)
				rc = client_want(p->client, p->table[i], step, base_of(p, i, step), p->w[i], e);
			continue;
		}
		n = rows_of(p, b, i, &id);
		rc = room(p, i, n * p->job->table[i].cols, e);
		if (!rc && n)
			rc = (may_build(p, step) ? client_want_changed_rows : client_want_rows)(p->client, p->table[i], step, id, n, p->w[i], e);
	}
	if (!rc)
		rc = client_wait(p->client, step, e);
	p->pulled |= (dense || p->asked) && !rc;
	p->aside = p->asked = false;
	return rc;
}

size_t params_floats(const struct params *p, const struct batch *b, size_t i)
{
	const struct model_table *m = &p->job->table[i];
	const uint64_t *id;

	return (m->sparse ? rows_of(p, b, i, &id) : m->rows) * m->cols;
}

enum err_code params_push(struct params *p, const struct batch *b, uint64_t step, struct err *e)
{
	uint32_t examples = (uint32_t)b->rows;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < p->job->ntables; i++) {
		const uint64_t *id;
		size_t n;

		if (p->table[i]->reduced || job_is_frozen(p->job, i))
			continue;
		if (!p->job->table[i].sparse)
			rc = client_push(p->client, p->table[i], step, examples, p->g[i], e);
		else if ((n = rows_of(p, b, i, &id)) > 0)
			rc = client_push_rows(p->client, p->table[i], step, examples, id, n, p->g[i], p->w[i], e);
	}
	return rc;
}

void params_clip(struct params *p, const struct batch *b, double most)
{
	double sum = 0;

	for (size_t i = 0; i < p->job->ntables; i++)
		sum += vec_sumsq(params_floats(p, b, i), p->g[i]);
	p->norm = sqrt(sum);
	p->norm_wanted = false;
	if (!isfinite(sum) || p->norm <= most)
		return;
	for (size_t i = 0; i < p->job->ntables; i++)
		vec_scale(params_floats(p, b, i), (float)(most / sqrt(sum)), p->g[i]);
}

/* ---- the last good ones ------------------------------------------------------ */

static enum err_code may_save(const struct params *p, struct err *e)
{
	if (!p->any)
		return err_set(e, ERR_NOTFOUND, "no step before was good");
	for (size_t i = 0; i < p->job->ntables; i++) {
		const struct model_table *m = &p->job->table[i];

		if (m->sparse)
			return err_set(e, ERR_NOTFOUND, "table \"%s\" is sparse: a worker has only some of its rows", m->name);
		if (!vec_all_finite(m->rows * m->cols, p->kept[i]))
			return err_set(e, ERR_NOTFOUND, "table \"%s\" was not finite at step %llu either", m->name,
			    (unsigned long long)p->kept_step);
	}
	return ERR_OK;
}

static enum err_code write_good(const struct params *p, int fd, struct err *e)
{
	struct safetensors_writer *w = safetensors_writer_new();
	enum err_code rc = ERR_OK;
	char step[24];

	snprintf(step, sizeof step, "%llu", (unsigned long long)p->kept_step);
	safetensors_add_meta(w, "format", "pskit");
	safetensors_add_meta(w, "step", step);
	for (size_t i = 0; !rc && i < p->job->ntables; i++)
		rc = safetensors_add(w, p->job->table[i].name, SAFETENSORS_F32,
		    (const uint64_t[]){ p->job->table[i].rows, p->job->table[i].cols }, 2, e);
	if (!rc)
		rc = safetensors_begin(w, safetensors_to_fd, &fd, e);
	for (size_t i = 0; !rc && i < p->job->ntables; i++)
		rc = safetensors_put(w, p->kept[i], p->job->table[i].rows * p->job->table[i].cols, e);
	if (!rc)
		rc = safetensors_end(w, e);
	safetensors_writer_free(w);
	return rc;
}

enum err_code params_save_good(const struct params *p, const char *path, struct err *e)
{
	enum err_code rc = may_save(p, e);
	struct file_new f;

	if (!rc)
		rc = file_new_open(path, 0600, &f, e);
	if (rc)
		return rc;
	rc = write_good(p, f.fd, e);
	return file_new_close(&f, rc, e);
}
