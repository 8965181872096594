/* SPDX-License-Identifier: ISC */
#ifndef CKPT_NAMES_H
#define CKPT_NAMES_H

/* For the files of ckpt/: names of directories and files of a checkpoint, and the manifest with
 * its seal. Pure functions but for ckpt_hidden_path and ckpt_manifest_read, which look at the
 * disk. No locks. */

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"
#include "msg/manifest.h"

#define CKPT_MANIFEST     "MANIFEST.json"
#define CKPT_MANIFEST_MAX ((size_t)256 << 20)
#define CKPT_SERVER_MAX   65535u
#define CKPT_NAME         64

/* The name of a server's file: "server-N.params.safetensors", or "server-N.state.safetensors"
 * for optimizer state. */
void ckpt_file_name(unsigned server, bool state, char out[static CKPT_NAME]);
/* Prefix of a base's files within a delta checkpoint, where they are links. */
#define CKPT_BASE "base-"
bool ckpt_is_base(const char *name);
/* The file with the text of a large description of the data (msg/large_description.h). */
#define CKPT_DESCRIPTION "description.json"
/* Can a checkpoint have a file of this name beside its manifest? */
bool ckpt_may_have(const char *name);
/* Like ckpt_file_parse, but also accepts names with CKPT_BASE. */
bool ckpt_held_parse(const char *name, unsigned *server, bool *state);
/* Parse a name of ckpt_file_name. False for any other spelling, so a name from outside cannot be
 * a path. */
bool ckpt_file_parse(const char *name, unsigned *server, bool *state);
/* "step-000000001000" from a step, and back. */
void ckpt_step_name(uint64_t step, char out[static CKPT_NAME]);
bool ckpt_step_parse(const char *name, uint64_t *step);
/* Is it a directory that is being made or removed (".step-...tmp-...")? */
bool ckpt_is_unfinished(const char *name);

/* A fresh path DIR/.step-...tmp-RANDOM that does not exist yet. */
char *ckpt_hidden_path(const char *dir, uint64_t step);

/* The text of a manifest with its seal as the last member, which is the digest of the text
 * without it. The caller frees it. */
char *ckpt_manifest_text(const json_t *manifest);
/* Check the seal and decode the manifest, which manifest_free frees. The seal is removed from
 * `text`; name is for messages. NULL: ERR_FORMAT, ERR_UNSUPPORTED. */
struct manifest *ckpt_manifest_parse(struct buf *text, const char *name, struct err *e);
/* Fetch and parse the manifest of a checkpoint in an object store; `text` keeps its seal. */
struct object_client;
enum err_code ckpt_manifest_fetch(struct object_client *c, const char *name, struct buf *text,
    struct manifest **out, struct err *e);
/* Read the manifest in directory path and check its seal and its version. NULL: ERR_FORMAT when it
 * is damaged or missing, ERR_UNSUPPORTED for a later version. */
struct manifest *ckpt_manifest_read(const char *path, struct err *e);

/* Can a coordinator resume a job from it? ERR_FORMAT: its part of the manifest cannot be decoded.
 * `name` is for messages. */
enum err_code ckpt_head_check(const struct manifest *m, const char *name, struct err *e);

/* Does the manifest refer to a large description of the data if, and only if, it lists the file
 * with it? */
bool ckpt_description_fits(const struct manifest *m);

/* Has the optimizer state of the checkpoint at `path` the meaning that this program gives it? Else
 * ERR_UNSUPPORTED: a job that goes on with it would learn something else. Its parameters can be
 * used. */
enum err_code ckpt_state_check(const struct manifest *m, const char *path, struct err *e);

#endif
