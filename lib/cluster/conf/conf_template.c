/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "conf/conf.h"
#include "conf/conf_key.h"
#include "core/buf.h"

#define FASHION "/usr/share/datasets/fashion-mnist/"
#define FFM     "\t\t\"data\": \"train.ffm?format=ffm\",\n\t\t\"eval\": \"test.ffm?format=ffm\"\n"

/* The data of a first cluster file, in a form that the model can learn from. The model decides the
 * other keys (model.def). */
struct template
{
	const char *model, *job;
};

static const struct template templates[] = {
	{ "softmax",
	    "\t\t\"data\": \"" FASHION "train-images-idx3-ubyte.gz\",\n"
	    "\t\t\"eval\": \"" FASHION "t10k-images-idx3-ubyte.gz\"\n" },
	{ "mlp",
	    "\t\t\"data\": \"" FASHION "train-images-idx3-ubyte.gz\",\n"
	    "\t\t\"eval\": \"" FASHION "t10k-images-idx3-ubyte.gz\"\n" },
	{ "fm",
	    "\t\t\"data\": \"train.libsvm?format=libsvm\",\n"
	    "\t\t\"eval\": \"test.libsvm?format=libsvm\"\n" },
	{ "ffm", FFM },
	{ "mf",
	    "\t\t\"data\": \"ratings.tsv?format=ratings\",\n"
	    "\t\t\"eval\": \"test.tsv?format=ratings\"\n" },
	{ "bpr",
	    "\t\t\"data\": \"ratings.tsv?positive=4\",\n"
	    "\t\t\"eval\": \"test.tsv?positive=4\"\n" },
	{ "wide_deep", FFM },
	{ "deepfm", FFM },
	{ "dcn", FFM },
	{ "dlrm", FFM },
	{ "word2vec", "\t\t\"data\": \"text.txt?format=text\"\n" },
	{ "fasttext",
	    "\t\t\"data\": \"train.txt?format=fasttext\",\n"
	    "\t\t\"eval\": \"test.txt?format=fasttext\"\n" },
	{ "custom",
	    "\t\t\"tables\": \"w:10,b:1:nodecay\",\n\t\t\"exec\": \"./gradient\",\n"
	    "\t\t\"data\": \"train.csv\",\n\t\t\"examples\": 1000,\n\t\t\"epochs\": 3\n" },
	{ NULL, "\t\t\"data\": \"train.csv\",\n\t\t\"eval\": \"test.csv\"\n" },
};

char *conf_template(const char *model, struct err *e)
{
	const struct template *t = templates;
	struct buf out = BUF_INIT;

	if (conf_model_check(model, e) != ERR_OK)
		return NULL;
	while (t->model && strcmp(t->model, model) != 0)
		t++;
	buf_printf(&out,
	    "{\n\t\"servers\": 1,\n\t\"workers\": 2,\n\t\"job\": {\n\t\t\"model\": \"%s\",\n%s"
	    "\t}\n}\n",
	    model, t->job);
	return (char *)out.data;
}
