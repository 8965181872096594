#include "work/coding.h"

#include "base/json.h"

enum err_code coding_of(const struct conf *c, struct client_coding *out, struct err *e)
{
	enum err_code rc = codec_parse(c->codec, &out->codec, e);

	out->feedback = c->feedback;
	out->momentum = (float)c->job.momentum;
	out->pull_codec = codec_by_name(c->pull_codec);
	out->ids = client_ids_by_name(c->row_ids);
	out->l1 = c->job.l1;
	return rc ? rc : filter_parse(c->filter, &out->filter, e);
}

enum err_code coding_take(struct worker *w, struct err *e)
{
	int64_t settings = json_int(w->view, "settings", 0);
	struct client_coding coding = { 0 };
	struct conf conf;
	enum err_code rc;

	if (settings == w->settings)
		return ERR_OK;
	rc = conf_from_json(json_object_get(w->view, "config"), &conf, e);
	if (rc)
		return rc;
	rc = coding_of(&conf, &coding, e);
	conf_release(&conf);
	if (rc)
		return rc;
	client_recode(w->client, &coding);
	w->settings = settings;
	pthread_mutex_lock(&w->lock);
	w->fig.settings = settings;
	w->fig.settings_step = w->step;
	pthread_mutex_unlock(&w->lock);
	return ERR_OK;
}
