/* SPDX-License-Identifier: ISC */
#include "worker/coding.h"

enum err_code coding_from_conf(const struct conf *c, struct client_coding *out, struct err *e)
{
	enum err_code rc = codec_parse(c->codec, &out->codec, e);

	out->feedback = c->feedback;
	out->momentum = (float)c->job.momentum;
	out->pull_codec = codec_by_name(c->pull_codec);
	out->ids = client_ids_by_name(c->row_ids);
	out->l1 = c->job.l1;
	return rc ? rc : filter_parse(c->filter, &out->filter, e);
}
