/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "conf/conf.h"
#include "conf/conf_key.h"
#include "core/buf.h"

#define FASHION  "/usr/share/datasets/fashion-mnist/"
#define MOMENTUM "\t\t\"optimizer\": \"momentum\",\n\t\t\"lr\": 0.05\n"
#define ADAGRAD  "\t\t\"optimizer\": \"adagrad\",\n\t\t\"lr\": 0.05\n"

/* The parts of a first cluster file that depend on the model: data in a form that the model can
 * learn from, and a suitable update rule. For tables whose rows few examples touch that is adagrad,
 * which keeps a learning rate for each value. */
struct template
{
	const char *model, *job, *rule;
};

static const struct template templates[] = {
	{ "softmax",
	    "\t\t\"data\": \"" FASHION "train-images-idx3-ubyte.gz\",\n"
	    "\t\t\"eval\": \"" FASHION "t10k-images-idx3-ubyte.gz\",\n",
	    MOMENTUM },
	{ "mlp",
	    "\t\t\"data\": \"" FASHION "train-images-idx3-ubyte.gz\",\n"
	    "\t\t\"eval\": \"" FASHION "t10k-images-idx3-ubyte.gz\",\n"
	    "\t\t\"hidden\": [256],\n",
	    MOMENTUM },
	{ "fm",
	    "\t\t\"data\": \"train.libsvm?format=libsvm\",\n\t\t\"eval\": \"test.libsvm?format=libsvm\",\n"
	    "\t\t\"factors\": 8,\n",
	    ADAGRAD },
	{ "ffm",
	    "\t\t\"data\": \"train.ffm?format=ffm\",\n\t\t\"eval\": \"test.ffm?format=ffm\",\n"
	    "\t\t\"factors\": 4,\n",
	    ADAGRAD },
	{ "mf",
	    "\t\t\"data\": \"ratings.tsv?format=ratings\",\n\t\t\"eval\": \"test.tsv?format=ratings\",\n"
	    "\t\t\"factors\": 8,\n",
	    ADAGRAD },
	{ "wide_deep",
	    "\t\t\"data\": \"train.ffm?format=ffm\",\n\t\t\"eval\": \"test.ffm?format=ffm\",\n"
	    "\t\t\"factors\": 8,\n\t\t\"hidden\": [64],\n",
	    ADAGRAD },
	{ "deepfm",
	    "\t\t\"data\": \"train.ffm?format=ffm\",\n\t\t\"eval\": \"test.ffm?format=ffm\",\n"
	    "\t\t\"factors\": 8,\n\t\t\"hidden\": [64],\n",
	    ADAGRAD },
	{ "word2vec", "\t\t\"data\": \"text.txt?format=text\",\n\t\t\"factors\": 50,\n", ADAGRAD },
	{ "custom",
	    "\t\t\"tables\": \"w:10,b:1:nodecay\",\n\t\t\"exec\": \"./gradient\",\n"
	    "\t\t\"data\": \"train.csv\",\n\t\t\"examples\": 1000,\n",
	    MOMENTUM },
	{ NULL, "\t\t\"data\": \"train.csv\",\n\t\t\"eval\": \"test.csv\",\n", MOMENTUM },
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
	    "\t\t\"epochs\": 3,\n\t\t\"batch\": 64,\n%s\t}\n}\n",
	    model, t->job, t->rule);
	return (char *)out.data;
}
