#ifndef CKPT_NAMES_H
#define CKPT_NAMES_H

/* Inside of ckpt/: names of directories and files, and the sealed manifest. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CKPT_MANIFEST "MANIFEST.json"
#define CKPT_MANIFEST_MAX ((size_t)256 << 20)
#define CKPT_SERVER_MAX 65535u
#define CKPT_NAME 64

/* "server-N.params.safetensors", "server-N.state.safetensors". */
void ckpt_file_name(unsigned server, bool state, char out[static CKPT_NAME]);
/* The same of a checkpoint that this one has only the changes to. */
#define CKPT_BASE "base-"
bool ckpt_is_base(const char *name);
/* As ckpt_file_parse, of either. */
bool ckpt_held_parse(const char *name, unsigned *server, bool *state);
/* False for any other spelling, so that a name from outside is no path. */
bool ckpt_file_parse(const char *name, unsigned *server, bool *state);
/* "step-000000001000", and back. */
void ckpt_step_name(uint64_t step, char out[static CKPT_NAME]);
bool ckpt_step_parse(const char *name, uint64_t *step);
/* ".step-...tmp-...": being made or being removed. */
bool ckpt_is_unfinished(const char *name);

/* A fresh name DIR/.step-...tmp-RANDOM where nothing is yet. */
char *ckpt_hidden_path(const char *dir, uint64_t step);

/* Text of a manifest with its seal as the last member: the digest of the text
 * without it.  Free it. */
char *ckpt_manifest_text(const json_t *manifest);
/* The same from its text, which loses its seal; name is for messages. */
json_t *ckpt_manifest_parse(struct buf *text, const char *name, struct err *e);
/* The same of a checkpoint in an object store; text is as it lies there. */
struct object_client;
enum err_code ckpt_manifest_fetch(struct object_client *c, const char *name, struct buf *text, json_t **out, struct err *e);
/* The manifest in directory path, seal and "v" checked.  NULL: ERR_FORMAT when
 * it is damaged or is not there, ERR_UNSUPPORTED for a later "v". */
json_t *ckpt_manifest_read(const char *path, struct err *e);

#endif
