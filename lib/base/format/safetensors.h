/* SPDX-License-Identifier: ISC */
#ifndef FORMAT_SAFETENSORS_H
#define FORMAT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "math/stored_rows.h"

/* The safetensors file format (huggingface/safetensors, README "Format"):
 * 8 bytes header length, a JSON header, then the tensors' bytes. Types F32, F16 and BF16
 * for parameters, U64 for the row ids of sparse tables and U8 for bytes; others are refused.
 * A matrix NAME of type I8 is parameters, too: row i is multiplied by value i of NAME.scale, F32. */
#define SAFETENSORS_RANK_MAX   8
#define SAFETENSORS_HEADER_MAX 100000000u

enum safetensors_type {
	SAFETENSORS_F32,
	SAFETENSORS_U64,
	SAFETENSORS_U8,
	SAFETENSORS_F16,
	SAFETENSORS_BF16,
	SAFETENSORS_I8
};

/* The type of a tensor of such values; and the type of its values, false if they are not
 * parameters. */
enum safetensors_type safetensors_type_of(enum element_type element);
bool safetensors_element(enum safetensors_type type, enum element_type *out);

struct safetensors_tensor {
	const char *name;
	enum safetensors_type type;
	size_t rank;
	uint64_t shape[SAFETENSORS_RANK_MAX];
	uint64_t count;  /* product of shape; 1 for rank 0 */
	uint64_t offset; /* of the first byte, from the start of the file */
	/* An open file sets these: `scale` has the scales of a matrix of bytes, else it is NULL;
	 * is_scale says that this tensor has such scales. */
	const struct safetensors_tensor *scale;
	bool is_scale;
};

/* Are the values of a tensor of an open file parameters? */
bool safetensors_is_parameters(const struct safetensors_tensor *t);

/* Reading. An open file is valid: every rule of the format was checked, so tensors lie one after
 * the other and cover the file. It is read with pread, so several threads may read one open
 * file. */
struct safetensors;

/* Opens a file and checks it. ERR_NOTFOUND, ERR_IO, ERR_FORMAT. */
enum err_code safetensors_open(const char *path, struct safetensors **out, struct err *e);
/* As safetensors_open; takes ownership of fd, also on failure. name is for messages. */
enum err_code safetensors_open_fd(int fd, const char *name, struct safetensors **out,
    struct err *e);
void safetensors_close(struct safetensors *s);

/* Number of tensors. */
size_t safetensors_count(const struct safetensors *s);
/* Tensor i, in the order of their bytes. */
const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t i);
/* The tensor of a name, or NULL. Results of these two are borrowed until safetensors_close. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name);
/* The value of a key in __metadata__, or NULL. */
const char *safetensors_meta(const struct safetensors *s, const char *key);

/* Reads n values of tensor t from value `first` on; parameters of any type as float32. ERR_LIMIT
 * outside of the tensor, ERR_FORMAT when it has the other type or the file has shrunk. */
enum err_code safetensors_read(const struct safetensors *s, const struct safetensors_tensor *t,
    uint64_t first, uint64_t n, float *out, struct err *e);
enum err_code safetensors_read_ids(const struct safetensors *s, const struct safetensors_tensor *t,
    uint64_t first, uint64_t n, uint64_t *out, struct err *e);
enum err_code safetensors_read_bytes(const struct safetensors *s,
    const struct safetensors_tensor *t, uint64_t first, uint64_t n, uint8_t *out, struct err *e);

/* Maps the file into memory, read-only, until safetensors_close; the second call does nothing. One
 * thread. A process that reads the mapping of a file that has been cut off gets SIGBUS. ERR_IO. */
enum err_code safetensors_map(struct safetensors *s, struct err *e);
/* The bytes of a tensor in the mapping, at any alignment. Only after safetensors_map.
 * safetensors_rows gives those of parameters as rows. */
const uint8_t *safetensors_bytes(const struct safetensors *s, const struct safetensors_tensor *t);
struct stored_rows safetensors_rows(const struct safetensors *s,
    const struct safetensors_tensor *t);

/* Gets n rows of `cols` parameters of tensor t from the mapping, as float32, in the order of their
 * numbers: rows that lie apart cost a copy each, and no call of the system. Only after safetensors_map, and
 * by one thread of a process at a time, because it takes SIGBUS meanwhile. ERR_FORMAT when the file has
 * been cut off; what is in `out` is worthless then. */
enum err_code safetensors_gather(const struct safetensors *s, const struct safetensors_tensor *t,
    size_t cols, const uint32_t *row, uint64_t n, float *out, struct err *e);

/* The number of parameters in the file that are not finite; -1 when it cannot be read. */
int64_t safetensors_count_nonfinite(const char *path);

/* Writing: safetensors_add for every tensor, safetensors_begin, the values of tensor after tensor
 * in the same order, in pieces of any length, safetensors_end. The header is padded so that the
 * data begin at a multiple of 64. Add U64 tensors first, then those of 32, of 16 and of 8 bits: readers
 * that map the file need each tensor aligned to its type. One thread. */
struct safetensors_writer;
typedef enum err_code safetensors_sink(void *ctx, const void *p, size_t n, struct err *e);

struct safetensors_writer *safetensors_writer_new(void);
void safetensors_writer_free(struct safetensors_writer *w);
/* Announces a tensor. ERR_EXISTS: the name was added before; ERR_LIMIT: the shape is too large. */
enum err_code safetensors_add(struct safetensors_writer *w, const char *name,
    enum safetensors_type type, const uint64_t *shape, size_t rank, struct err *e);
void safetensors_add_meta(struct safetensors_writer *w, const char *key, const char *value);
/* Adds a tensor of n bytes after all others. It is announced by safetensors_begin and written by
 * safetensors_end. At most one; takes `bytes`, which was allocated. */
void safetensors_add_bytes(struct safetensors_writer *w, const char *name, void *bytes, size_t n);
/* Size of the whole file, after safetensors_begin. */
uint64_t safetensors_size(const struct safetensors_writer *w);

/* Writes the header. Everything goes to the sink; safetensors_to_fd is a sink whose ctx is an int
 * *. */
enum err_code safetensors_begin(struct safetensors_writer *w, safetensors_sink *sink, void *ctx,
    struct err *e);
/* Writes the next n values, which may go on over the end of a tensor into the next of the same
 * type. safetensors_put rounds to the tensor's type, to nearest. ERR_FAILED when more come than were
 * announced or they have the other type; else the sink's error. */
enum err_code safetensors_put(struct safetensors_writer *w, const float *x, uint64_t n,
    struct err *e);
enum err_code safetensors_put_ids(struct safetensors_writer *w, const uint64_t *x, uint64_t n,
    struct err *e);
enum err_code safetensors_put_int8(struct safetensors_writer *w, const int8_t *x, uint64_t n,
    struct err *e);
/* Writes the tensor of safetensors_add_bytes, if there is one. ERR_FAILED when values are missing;
 * else the sink's error. */
enum err_code safetensors_end(struct safetensors_writer *w, struct err *e);
enum err_code safetensors_to_fd(void *fd, const void *p, size_t n, struct err *e);

#endif
