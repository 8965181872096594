/* SPDX-License-Identifier: ISC */
#include "wire/transport.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

static bool path_is_there(const char *path)
{
	return access(path, R_OK | W_OK) == 0;
}

static bool path_always(const char *path)
{
	(void)path;
	return true;
}

static bool path_never(const char *path)
{
	(void)path;
	return false;
}

static bool always(bool reason_against)
{
	(void)reason_against;
	return true;
}

static bool never(bool reason_against)
{
	(void)reason_against;
	return false;
}

static bool unless(bool reason_against)
{
	return !reason_against;
}

static const struct transport transports[] = {
#define TRANSPORT(name, socket, offers, accepts, insists) \
	{ #name, socket, offers, accepts, insists, NULL },
#include "wire/transport.def"
#undef TRANSPORT
};

const struct transport *transport_find(const char *name)
{
	for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
		if (strcmp(transports[i].name, name) == 0)
			return &transports[i];
	return NULL;
}
