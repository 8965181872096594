/* SPDX-License-Identifier: ISC */
#ifndef DATA_OPTION_H
#define DATA_OPTION_H

/* The options of a data path as a list (data_option.def): their types, the formats that know them,
 * and how evaluation data get the options of the training data. Pure.
 *
 * An option that a path gives is known to the format of its files or refused. The options that
 * decide what features and targets mean belong to the description of the training data
 * (dataset.options): data that are read like these take them over, and another value is refused. */

#include <stdbool.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"
#include "data/data.h"

/* FILE: a text that names a file, which nobody may give from outside (data_option_names_file). */
enum data_option_type { DATA_OPTION_TEXT, DATA_OPTION_FILE, DATA_OPTION_WHOLE, DATA_OPTION_NUMBER };

enum data_option_use {
	DATA_OPTION_OWN,    /* nothing: it describes the files of its path, or the schema says it */
	DATA_OPTION_TAKEN,  /* they take it over, unless their path has another value */
	DATA_OPTION_SHARED, /* as TAKEN, and all files of one dataset have the same value */
	DATA_OPTION_HELD,   /* they take it over, and another value is refused */
	DATA_OPTION_COMPARED, /* the schema says it, and another value is refused */
	DATA_OPTION_LABEL,    /* they take it over where there is no schema */
	DATA_OPTION_WEIGHT    /* they take it over in formats without a schema */
};

struct data_option {
	const char *name;
	enum data_option_type type;
	size_t at; /* offset in struct data_options */
	double least, most;
	uint32_t formats; /* bits by the order in reader.def */
	enum data_option_use use;
};
/* All options; the number of one is that of its bit in data_options.given. */
extern const struct data_option data_option_list[];
extern const size_t data_option_count;

/* Is the value a text: TEXT or FILE? */
static inline bool data_option_is_text(const struct data_option *k)
{
	return k->type == DATA_OPTION_TEXT || k->type == DATA_OPTION_FILE;
}
/* The name of an option of the path that names a file; NULL: there is none. */
const char *data_option_names_file(const struct data_options *o);
/* The value of a TEXT or FILE option; NULL: it is not set. */
char *data_option_text(const struct data_options *o, const struct data_option *k);
/* Does the path give the option of this name? */
bool data_option_is_given(const struct data_options *o, const char *name);
/* Appends the value of the option of this name. False: it is not set. */
bool data_option_value(const struct data_options *o, const char *name, struct buf *out);
/* Removes the option of this name, whose text the caller has borrowed. */
void data_option_clear(struct data_options *o, const char *name);

/* Gives o the format of the data that `like` describes (NULL: none), if its path has none. */
void data_option_take_format(struct data_options *o, const struct dataset *like);
/* Gives o the options that files of this format, by its number in reader.def, take over from the
 * data that `like` describes. labels: the labels of these files are wanted. ERR_CONFIG: a value
 * contradicts them; name is that of the file. */
enum err_code data_option_take(struct data_options *o, const struct dataset *like, size_t format,
    bool labels, const char *name, struct err *e);
/* Refuses options of streams for a path that is none. ERR_CONFIG. */
enum err_code data_option_check_file(const struct data_options *o, const char *path, struct err *e);
/* Checks that this format knows all options that the path gives. ERR_CONFIG names the formats that
 * do. */
enum err_code data_option_check(const struct data_options *o, size_t format, const char *name,
    struct err *e);
/* The path of a file that an option of the file `name` names: as it is, if it is absolute or a URI, else
 * as an absolute one, from the folder of `name`. A new string. */
char *data_option_path(const char *name, const char *path);
/* Makes the paths of the tables of features absolute (data_option_path), because the description of the
 * data stores them. */
void data_option_complete(struct data_options *o, const char *name);
/* Checks that files of one dataset agree: those of `first` were read with other options.
 * ERR_CONFIG. */
enum err_code data_option_agree(const struct data_options *o, const struct data_options *first,
    size_t format, const char *name, struct err *e);

/* The options of training data that belong to their description, as a new copy; scale: how tables are
 * scaled whose path does not say it. */
struct data_options *data_option_note(const struct data_options *o, size_t format,
    const char *scale);
/* A copy; NULL of NULL. */
struct data_options *data_option_copy(const struct data_options *o);
/* Frees what data_option_note or data_option_from_json has made; NULL is fine. */
void data_option_free(struct data_options *o);
/* {"bits": 18, "pairs": "ab"}, a new reference, and back; *out is NULL after ERR_FORMAT. */
json_t *data_option_to_json(const struct data_options *o);
enum err_code data_option_from_json(const json_t *json, struct data_options **out, struct err *e);

#endif
