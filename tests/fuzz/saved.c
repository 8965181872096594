/* SPDX-License-Identifier: ISC */
#include <sys/mman.h>
#include <unistd.h>

#include "reader.h"

#include "core/file.h"
#include "saved/saved_model.h"
#include "tool/row_text.h"
#include "worker/data_facts.h"

/* Any bytes are a whole model file or a sentence; what opens can be read, and its description of
 * the training data can be evaluated with. So can a description alone, without the numbers of a
 * file around it. The first two bytes are the length of a table to be evaluated, which follows
 * them. */

static void read_tables(struct saved_model *m)
{
	const struct layout *l = saved_model_about(m).layout;

	for (size_t i = 0; i < l->ntables; i++)
		for (uint32_t p = 0; p < l->table[i].nparts && p < 64; p++) {
			struct saved_part part;

			saved_model_read(m, &l->table[i], p, false, &part, NULL);
			saved_part_release(&part);
		}
}

static void write_names(const struct saved_about *a)
{
	struct row_text *names = row_text_new(a->config, a->facts);
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < a->layout->ntables; i++)
		for (uint64_t row = 0; row < 4; row++)
			row_text_put(names, a->layout->table[i].name, row, row, 1, &out);
	buf_release(&out);
	row_text_free(names);
}

static void evaluate(const json_t *facts, const uint8_t *data, size_t n)
{
	static const struct data_want wants[] = { { .classes = true }, { .any = true } };
	static const struct data_options o = DATA_OPTIONS_INIT;
	struct dataset *like = NULL, *d;
	struct err e;

	if (!facts || data_of_facts(facts, &like, &e))
		return;
	for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
		d = load(&o, data, n, &wants[i], like);
		if (d)
			gather(d);
		dataset_free(d);
	}
	dataset_free(like);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	size_t text = n >= 2 ? data[0] + 256 * (size_t)data[1] : 0;
	struct saved_model *m = NULL;
	json_t *facts;
	char path[64];
	struct err e;
	int fd;

	(void)read_all;
	if (n < 2 || n - 2 < text)
		return 0;
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || file_write_all(fd, data + 2 + text, n - 2 - text, NULL) != ERR_OK)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (saved_model_open(path, &m, &e) == ERR_OK) {
		struct saved_about about = saved_model_about(m);

		read_tables(m);
		write_names(&about);
		evaluate(about.facts, data + 2, text);
	}
	saved_model_close(m);
	close(fd);
	facts = json_loadb((const char *)data + 2 + text, n - 2 - text, 0, NULL);
	evaluate(facts, data + 2, text);
	json_decref(facts);
	return 0;
}
