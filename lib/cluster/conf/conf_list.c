/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "conf/conf_value.h"
#include "conf/hosts.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"

#define LIST_MAX 65536

json_t *conf_list_parse(const struct conf_key *k, const char *text, struct err *e)
{
	json_t *list;
	int64_t number;

	if (*text == '[') {
		list = json_parse(text, strlen(text), LIST_MAX, e);
		if (!list && e)
			err_prefix(e, "%s", k->path);
		return list;
	}
	list = json_array();
	while (*text) {
		size_t n = k->type == CONF_HOSTS ? hosts_entry_length(text) : strcspn(text, ",");
		char *item = mem_printf("%.*s", (int)n, text);

		if (k->type == CONF_INTS && num_int(item, INT64_MIN, INT64_MAX, &number))
			json_array_append_new(list, json_integer(number));
		else
			json_array_append_new(list, json_string(item));
		free(item);
		text += n;
		if (*text == ',' && *++text == '\0')
			json_array_append_new(list, json_string(""));
	}
	return list;
}

bool conf_strs_read(const struct conf_key *k, const json_t *v, const char *dir,
    union conf_value *out, struct err *e)
{
	size_t n = json_is_array(v) ? json_array_size(v) : 1;
	struct conf_strs s = { mem_array(n, sizeof *s.item), 0 };

	while (s.n < n) {
		const json_t *one = json_is_array(v) ? json_array_get(v, s.n) : v;
		const char *text = json_string_value(one);

		if (!text || *text == '\0') {
			conf_must_json(k, conf_type_ops(k->type)->what, v, e);
			conf_strs_release(&s);
			return false;
		}
		s.item[s.n++] = conf_path_from(dir, text);
	}
	out->strs = s;
	return true;
}

bool conf_hosts_read(const struct conf_key *k, const json_t *v, union conf_value *out,
    struct err *e)
{
	struct hosts parsed = { NULL, 0 };
	bool good = conf_strs_read(k, v, NULL, out, e);
	struct err why;

	for (size_t i = 0; good && i < out->strs.n; i++)
		if (hosts_add(&parsed, out->strs.item[i], &why) != ERR_OK) {
			err_set(e, ERR_CONFIG, "%s: %s", k->path, why.msg);
			conf_strs_release(&out->strs);
			good = false;
		}
	hosts_release(&parsed);
	return good;
}

bool conf_ints_read(const struct conf_key *k, const json_t *v, union conf_value *out, struct err *e)
{
	size_t n = json_is_array(v) ? json_array_size(v) : 1;
	struct conf_ints s = { mem_array(n, sizeof *s.item), 0 };
	char text[32];

	while (s.n < n) {
		const json_t *one = json_is_array(v) ? json_array_get(v, s.n) : v;
		int64_t number = json_integer_value(one);

		snprintf(text, sizeof text, "%lld", (long long)number);
		if (!json_is_integer(one)) {
			conf_must_json(k, "a list of whole numbers", v, e);
			goto fail;
		}
		if (!conf_in_bounds(k, (double)number, text, e))
			goto fail;
		s.item[s.n++] = number;
	}
	out->ints = s;
	return true;
fail:
	free(s.item);
	return false;
}

json_t *conf_strs_json(const union conf_value *v)
{
	json_t *list = json_array();

	for (size_t i = 0; i < v->strs.n; i++)
		json_array_append_new(list, json_string(v->strs.item[i]));
	return list;
}

json_t *conf_ints_json(const union conf_value *v)
{
	json_t *list = json_array();

	for (size_t i = 0; i < v->ints.n; i++)
		json_array_append_new(list, json_integer(v->ints.item[i]));
	return list;
}

void conf_strs_release(struct conf_strs *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->item[i]);
	free(s->item);
	*s = (struct conf_strs){ NULL, 0 };
}
