/* SPDX-License-Identifier: ISC */
#include "wire/record.h"

#include <stddef.h>

#include "auth/keyring.h"
#include "core/endian.h"
#include "core/steps.h"

#define MAGIC   0x31525350u /* "PSR1" */
#define VERSION 1

/* The letters of records.def. */
#define W (1u << ROLE_WORKER)
#define S (1u << ROLE_SERVER)
#define R (1u << ROLE_RELAY)
#define M (1u << ROLE_MONITOR)
#define A (1u << ROLE_ADMIN)
#define E (1u << ROLE_READER)

static const struct type_row {
	const char *name;
	unsigned roles;
	uint32_t limit;
} types[256] = {
#define RECORD(name, number, roles, limit) [number] = { #name, roles, limit },
#include "wire/records.def"
#undef RECORD
};

void record_encode(const struct record *r, uint8_t out[static RECORD_HEADER])
{
	put_le32(out, MAGIC);
	out[4] = VERSION;
	out[5] = r->type;
	put_le16(out + 6, r->flags);
	put_le32(out + 8, r->len);
	put_le16(out + 12, r->table);
	put_le16(out + 14, r->codec);
	put_le32(out + 16, r->part);
	put_le32(out + 20, r->epoch);
	put_le32(out + 24, r->generation);
	put_le32(out + 28, r->examples);
	put_le64(out + 32, r->step);
	put_le64(out + 40, r->seq);
	put_le64(out + 48, r->offset);
	put_le64(out + 56, r->total);
}

void record_add_flags(uint8_t head[static RECORD_HEADER], uint16_t flags)
{
	put_le16(head + 6, (uint16_t)(get_le16(head + 6) | flags));
}

enum err_code record_decode(const uint8_t in[static RECORD_HEADER], struct record *r, struct err *e)
{
	if (get_le32(in) != MAGIC)
		return err_set(e, ERR_PROTO, "record without the magic number");
	if (in[4] != VERSION)
		return err_set(e, ERR_PROTO,
		    "record of version %u, but this program speaks version %d", in[4], VERSION);
	r->type = in[5];
	r->flags = get_le16(in + 6);
	r->len = get_le32(in + 8);
	r->table = get_le16(in + 12);
	r->codec = get_le16(in + 14);
	r->part = get_le32(in + 16);
	r->epoch = get_le32(in + 20);
	r->generation = get_le32(in + 24);
	r->examples = get_le32(in + 28);
	r->step = get_le64(in + 32);
	r->seq = get_le64(in + 40);
	r->offset = get_le64(in + 48);
	r->total = get_le64(in + 56);
	if (!types[r->type].name)
		return err_set(e, ERR_PROTO, "record of unknown type %u", r->type);
	if (r->len > types[r->type].limit)
		return err_set(e, ERR_PROTO, "%s record of %u bytes, the limit is %u",
		    types[r->type].name, r->len, types[r->type].limit);
	return ERR_OK;
}

bool record_role_may(uint8_t type, unsigned role)
{
	return role < 32 && (types[type].roles >> role & 1);
}

bool record_step_is_absurd(const struct record *r)
{
	switch (r->type) {
	case REC_PUSH:
	case REC_PUSH_ROWS:
	case REC_PUSH_SUM:
	case REC_CLOCK:
	case REC_PULL:
	case REC_PULL_ROWS:
		return !(r->flags & RECORD_NOW) && r->step >= STEPS_END;
	default:
		return false;
	}
}

const char *record_type_name(uint8_t type)
{
	return types[type].name;
}
