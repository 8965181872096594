/* SPDX-License-Identifier: ISC */
#include "ckpt/names.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "format/digest.h"
#include "msg/manifest.h"
#include "msg/state.h"
#include "optim/optim.h"

#define SEAL ",\"seal\":\""

void ckpt_file_name(unsigned server, bool state, char out[static CKPT_NAME])
{
	snprintf(out, CKPT_NAME, "server-%u.%s.safetensors", server, state ? "state" : "params");
}

/* Parse the digits that follow prefix in name; false when there are none. */
static bool parse_number_after(const char *name, const char *prefix, uint64_t *out)
{
	size_t skip = strlen(prefix), n;
	char digits[24];

	if (strncmp(name, prefix, skip) != 0)
		return false;
	n = strspn(name + skip, "0123456789");
	if (n >= sizeof digits)
		return false;
	memcpy(digits, name + skip, n);
	digits[n] = 0;
	return num_uint(digits, INT64_MAX, out);
}

bool ckpt_file_parse(const char *name, unsigned *server, bool *state)
{
	char again[CKPT_NAME];
	uint64_t n;

	if (!parse_number_after(name, "server-", &n) || n > CKPT_SERVER_MAX)
		return false;
	*server = (unsigned)n;
	*state = strstr(name, ".state.") != NULL;
	ckpt_file_name(*server, *state, again);
	return strcmp(name, again) == 0;
}

bool ckpt_is_base(const char *name)
{
	return strncmp(name, CKPT_BASE, strlen(CKPT_BASE)) == 0;
}

bool ckpt_held_parse(const char *name, unsigned *server, bool *state)
{
	return ckpt_file_parse(ckpt_is_base(name) ? name + strlen(CKPT_BASE) : name, server, state);
}

bool ckpt_may_have(const char *name)
{
	unsigned server;
	bool state;

	return strcmp(name, CKPT_DESCRIPTION) == 0 || ckpt_held_parse(name, &server, &state);
}

void ckpt_step_name(uint64_t step, char out[static CKPT_NAME])
{
	snprintf(out, CKPT_NAME, "step-%012" PRIu64, step);
}

bool ckpt_step_parse(const char *name, uint64_t *step)
{
	char again[CKPT_NAME];

	if (!parse_number_after(name, "step-", step))
		return false;
	ckpt_step_name(*step, again);
	return strcmp(name, again) == 0;
}

bool ckpt_is_unfinished(const char *name)
{
	return strncmp(name, ".step-", 6) == 0 && strstr(name, ".tmp-") != NULL;
}

char *ckpt_hidden_path(const char *dir, uint64_t step)
{
	char name[CKPT_NAME], *path;
	struct stat st;

	ckpt_step_name(step, name);
	for (;;) {
		path = mem_printf("%s/.%s.tmp-%08" PRIx32, dir, name, randombytes_random());
		if (lstat(path, &st) != 0)
			return path;
		free(path);
	}
}

/* ---- the manifest ---- */

char *ckpt_manifest_text(const json_t *manifest)
{
	char *text = json_text(manifest), *sealed, hex[DIGEST_HEX];
	size_t n = strlen(text);

	digest_of(text, n, hex);
	sealed = mem_printf("%.*s" SEAL "%s\"}\n", (int)(n - 1), text, hex);
	free(text);
	return sealed;
}

/* Remove the seal, which leaves the text that it was computed from, and check it. */
static bool strip_seal(struct buf *text)
{
	static const size_t tail = sizeof SEAL - 1 + DIGEST_HEX - 1 + 3;
	char hex[DIGEST_HEX], *at;

	if (text->len < tail)
		return false;
	text->len -= tail;
	at = (char *)text->data + text->len;
	if (memcmp(at, SEAL, sizeof SEAL - 1) != 0 || memcmp(at + tail - 3, "\"}\n", 3) != 0)
		return false;
	*at = '}';
	text->len++;
	digest_of(text->data, text->len, hex);
	return memcmp(at + sizeof SEAL - 1, hex, DIGEST_HEX - 1) == 0;
}

/* Decode a manifest whose seal is right. */
static struct manifest *decode_manifest(const json_t *json, const char *name, struct err *e)
{
	int64_t version = manifest_version(json);
	struct manifest *m = NULL;
	struct err why = { 0 };

	if (version != MANIFEST_VERSION)
		err_set(e, ERR_UNSUPPORTED,
		    "\"%s\" has version %" PRId64 ", but this program reads version %d", name,
		    version, MANIFEST_VERSION);
	else if (manifest_decode(json, &m, &why))
		err_because(e, ERR_FORMAT, why.cause, "\"%s\" is invalid: %s", name, why.msg);
	return m;
}

struct manifest *ckpt_manifest_parse(struct buf *text, const char *name, struct err *e)
{
	struct manifest *m;
	json_t *json;

	if (!strip_seal(text)) {
		err_set(e, ERR_FORMAT, "\"%s\" is damaged: its seal is wrong", name);
		return NULL;
	}
	json = json_parse((const char *)text->data, text->len, CKPT_MANIFEST_MAX, e);
	if (!json) {
		err_prefix(e, "\"%s\"", name);
		return NULL;
	}
	m = decode_manifest(json, name, e);
	json_decref(json);
	return m;
}

struct manifest *ckpt_manifest_read(const char *path, struct err *e)
{
	char *file = path_join(path, CKPT_MANIFEST);
	struct buf text = BUF_INIT;
	struct manifest *m = NULL;

	if (file_read(file, CKPT_MANIFEST_MAX, &text, e) == ERR_OK)
		m = ckpt_manifest_parse(&text, file, e);
	else if (e && e->code == ERR_NOTFOUND)
		err_set(e, ERR_FORMAT, "\"%s\" does not exist", file);
	buf_release(&text);
	free(file);
	return m;
}

enum err_code ckpt_head_check(const struct manifest *m, const char *name, struct err *e)
{
	struct state_head head;
	enum err_code rc = state_head_decode(manifest_document(m), &head, e);

	if (rc)
		err_prefix(e, "%s", name);
	state_head_release(&head);
	return rc;
}

enum err_code ckpt_state_check(const struct manifest *m, const char *path, struct err *e)
{
	const struct optim_rule *rule = m->optimizer ? optim_find(m->optimizer) : NULL;

	if (!rule || m->state_version == rule->state_version)
		return ERR_OK;
	return err_set(e, ERR_UNSUPPORTED,
	    "%s has the optimizer state of %s as %s version of pskit writes it (%" PRId64 ", not "
	    "%u), and this version cannot resume from it; start a new run with only its "
	    "parameters: --init-from %s",
	    path, m->optimizer, m->state_version < rule->state_version ? "an older" : "a later",
	    m->state_version, rule->state_version, path);
}
