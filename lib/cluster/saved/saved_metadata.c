/* SPDX-License-Identifier: ISC */
#include "saved/saved_metadata.h"

#include "conf/conf.h"
#include "msg/model_metadata.h"

enum err_code saved_metadata_add(struct safetensors_writer *w, const json_t *config,
    const json_t *tables, const json_t *facts, struct err *e)
{
	struct model_metadata m = { .tables = tables, .facts = facts };
	struct conf conf;
	json_t *model;
	enum err_code rc = conf_from_json(config, &conf, e);

	if (rc)
		return rc;
	m.config = model = conf_model_json(&conf);
	safetensors_add_meta(w, "format", "pskit");
	rc = model_metadata_add(&m, w, e);
	json_decref(model);
	conf_release(&conf);
	return rc;
}
