/* SPDX-License-Identifier: ISC */
#include <sys/mman.h>

#include "core/file.h"
#include "format/safetensors.h"

/* Any bytes are a whole file or a sentence; what opens can be read. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_all(const struct safetensors *s)
{
	const struct safetensors_tensor *t;
	uint64_t ids[16];
	uint8_t bytes[16];
	float x[16];

	for (size_t i = 0; i < safetensors_count(s); i++) {
		t = safetensors_at(s, i);
		for (uint64_t at = 0; at < t->count; at += 16) {
			uint64_t n = t->count - at < 16 ? t->count - at : 16;
			enum err_code rc = safetensors_is_parameters(t) || t->is_scale
			    ? safetensors_read(s, t, at, n, x, NULL)
			    : t->type == SAFETENSORS_U8
			    ? safetensors_read_bytes(s, t, at, n, bytes, NULL)
			    : safetensors_read_ids(s, t, at, n, ids, NULL);

			if (rc != ERR_OK)
				abort(); /* an open file covers its tensors */
		}
		if (safetensors_find(s, t->name) != t)
			abort();
	}
	safetensors_meta(s, "format");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct safetensors *s;
	struct err e;

	if (fd < 0 || file_write_all(fd, data, n, NULL) != ERR_OK)
		abort();
	if (safetensors_open_fd(fd, "input", &s, &e) == ERR_OK)
		read_all(s);
	safetensors_close(s);
	return 0;
}
