/* SPDX-License-Identifier: ISC */
#ifndef MODEL_CLASS_WEIGHT_H
#define MODEL_CLASS_WEIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Weights of classes in training (job.class_weight): "none", "balanced", or "NAME:WEIGHT,...",
 * where a class that is not named has the weight 1. Pure. */

/* Checks the form of the text. ERR_CONFIG. */
enum err_code class_weight_check(const char *text, struct err *e);

/* Does the text ask for weights that depend on how many examples each class has? */
bool class_weight_counts(const char *text);

/* Sets out[i], for each class, to its weight. balanced: the number of all examples, divided by the
 * number of classes and that of the class's examples (King and Zeng, "Logistic Regression in Rare
 * Events Data", 2001), so that all classes together weigh the same and the mean over the examples
 * is 1; 1 for a class without examples. ERR_CONFIG: the form is wrong, or a name is that of no
 * class. */
enum err_code class_weight_set(const char *text, char *const *name, const uint64_t *count,
    size_t classes, float *out, struct err *e);

#endif
