/* SPDX-License-Identifier: ISC */
#ifndef SAVED_SAVED_METADATA_H
#define SAVED_SAVED_METADATA_H

#include "core/err.h"
#include "core/json.h"
#include "format/safetensors.h"

/* The metadata of a whole model that is about to be written to a safetensors file (before
 * safetensors_begin): "format", and the description that saved_model.h reads. config: the
 * configuration of the cluster, of which the file gets the keys that describe a model; tables: as
 * layout_tables; facts: of the training data, or NULL. Equal models get equal texts. Pure.
 * ERR_CONFIG: not a configuration. ERR_LIMIT: the description of the data is too long. */
enum err_code saved_metadata_add(struct safetensors_writer *w, const json_t *config,
    const json_t *tables, const json_t *facts, struct err *e);

#endif
