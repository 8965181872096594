#include "codec/codec.h"

#define CODEC(name, number) extern const struct codec codec_##name;
#include "codec/codec.def"
#undef CODEC

static const struct codec *const all[] = {
#define CODEC(name, number) &codec_##name,
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
