#ifndef FORMAT_SAFETENSORS_H
#define FORMAT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The safetensors file format (huggingface/safetensors, README "Format"):
 * 8 bytes header length, a JSON header, then the tensors' bytes.  Types F32
 * for parameters and U64 for the row ids of sparse tables; others are refused. */
#define SAFETENSORS_RANK_MAX 8
#define SAFETENSORS_HEADER_MAX 100000000u

enum safetensors_type { SAFETENSORS_F32, SAFETENSORS_U64 };

struct safetensors_tensor {
	const char *name;
	enum safetensors_type type;
	size_t rank;
	uint64_t shape[SAFETENSORS_RANK_MAX];
	uint64_t count;                 /* product of shape; 1 for rank 0 */
	uint64_t offset;                /* of the first byte, from the start of the file */
};

/* Reading.  An open file is whole: every rule of the format was checked, so
 * tensors lie one after the other and cover the file.  It is read with pread:
 * several threads may read one open file. */
struct safetensors;

enum err_code safetensors_open(const char *path, struct safetensors **out, struct err *e);
/* As open; takes fd over, also on failure.  name is for messages. */
enum err_code safetensors_open_fd(int fd, const char *name, struct safetensors **out, struct err *e);
void safetensors_close(struct safetensors *s);

size_t safetensors_count(const struct safetensors *s);
/* In the order of their bytes. */
const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t i);
const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name);
/* A value of __metadata__, or NULL. */
const char *safetensors_meta(const struct safetensors *s, const char *key);

/* n values of tensor t from number `first` on.  ERR_LIMIT outside of the
 * tensor, ERR_FORMAT when it is of the other type or the file has shrunk. */
enum err_code safetensors_read(const struct safetensors *s, const struct safetensors_tensor *t,
                               uint64_t first, uint64_t n, float *out, struct err *e);
enum err_code safetensors_read_ids(const struct safetensors *s, const struct safetensors_tensor *t,
                                   uint64_t first, uint64_t n, uint64_t *out, struct err *e);

/* Writing: name everything, begin, give the values tensor after tensor in the
 * order of naming, in pieces of any length, end.  The header is padded so that
 * the data begins at a multiple of 64.  Put U64 tensors first: readers that map
 * the file want each tensor aligned to its type. */
struct safetensors_writer;
typedef enum err_code safetensors_sink(void *ctx, const void *p, size_t n, struct err *e);

struct safetensors_writer *safetensors_writer_new(void);
void safetensors_writer_free(struct safetensors_writer *w);
/* ERR_EXISTS for a name given before, ERR_LIMIT for a shape too large. */
enum err_code safetensors_add(struct safetensors_writer *w, const char *name,
                              enum safetensors_type type, const uint64_t *shape, size_t rank,
                              struct err *e);
void safetensors_add_meta(struct safetensors_writer *w, const char *key, const char *value);
/* Size of the whole file as named so far, once begun. */
uint64_t safetensors_size(const struct safetensors_writer *w);

/* Everything goes to the sink; safetensors_to_fd is one whose ctx is an int *. */
enum err_code safetensors_begin(struct safetensors_writer *w, safetensors_sink *sink, void *ctx,
                                struct err *e);
enum err_code safetensors_put(struct safetensors_writer *w, const float *x, uint64_t n, struct err *e);
enum err_code safetensors_put_ids(struct safetensors_writer *w, const uint64_t *x, uint64_t n,
                                  struct err *e);
/* ERR_FAILED when values are missing. */
enum err_code safetensors_end(struct safetensors_writer *w, struct err *e);
enum err_code safetensors_to_fd(void *fd, const void *p, size_t n, struct err *e);

#endif
