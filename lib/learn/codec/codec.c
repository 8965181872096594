/* SPDX-License-Identifier: ISC */
#include "codec/codec.h"

#include <string.h>

#include "core/num.h"

#define LEVELS_MAX 127

#define CODEC(name, number, form) extern const struct codec codec_##name;
#include "codec/codec.def"
#undef CODEC

static const struct codec *const all[] = {
#define CODEC(name, number, form) &codec_##name,
#include "codec/codec.def"
#undef CODEC
};

const struct codec *codec_at(size_t i)
{
	return i < sizeof all / sizeof *all ? all[i] : NULL;
}

const struct codec *codec_by_id(uint16_t id)
{
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i]->id == id)
			return all[i];
	return NULL;
}

const struct codec *codec_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}

static const struct codec *by_prefix(const char *text, size_t n)
{
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strlen(all[i]->name) == n && memcmp(all[i]->name, text, n) == 0)
			return all[i];
	return NULL;
}

/* The argument is checked here and nowhere else: encoders trust its range. A codec without an
 * argument refuses one, so that "raw:0.1" does not look as if it had an effect. */
enum err_code codec_parse(const char *text, struct codec_spec *out, struct err *e)
{
	const char *colon = strchr(text, ':'), *arg = colon ? colon + 1 : NULL;
	const struct codec *c = by_prefix(text, colon ? (size_t)(colon - text) : strlen(text));

	*out = (struct codec_spec){ c, 0 };
	if (!c)
		return err_set(e, ERR_NOTFOUND, "there is no codec \"%.40s\"", text);
	switch (c->takes) {
	case CODEC_PLAIN:
		return arg
		    ? err_set(e, ERR_CONFIG, "%s takes no argument, got \"%.40s\"", c->name, text)
		    : ERR_OK;
	case CODEC_FRACTION:
		if (arg && num_double(arg, &out->arg) && out->arg > 0 && out->arg <= 1)
			return ERR_OK;
		return err_set(e, ERR_CONFIG,
		    "%s takes a fraction above 0 and at most 1, as %s:0.01, got \"%.40s\"", c->name,
		    c->name, text);
	default:
		if (arg && num_double(arg, &out->arg) && out->arg >= 1 && out->arg <= LEVELS_MAX &&
		    out->arg == (int)out->arg)
			return ERR_OK;
		return err_set(e, ERR_CONFIG,
		    "%s takes a number of levels from 1 to %d, as %s:16, got \"%.40s\"", c->name,
		    LEVELS_MAX, c->name, text);
	}
}

const float *codec_decode(const struct codec *c, const uint8_t *p, size_t len, size_t n, float *out)
{
	const float *v = c->raw_values ? c->raw_values(p, n) : NULL;

	if (v)
		return v;
	memset(out, 0, n * sizeof *out);
	c->add(p, len, n, 1, out);
	return out;
}
