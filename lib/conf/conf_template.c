#include <string.h>

#include "base/buf.h"
#include "conf/conf.h"
#include "conf/conf_key.h"

#define FASHION "/usr/share/datasets/fashion-mnist/"

char *conf_template(const char *model, struct err *e)
{
	struct buf out = BUF_INIT;
	bool mlp = strcmp(model, "mlp") == 0;
	bool custom = strcmp(model, "custom") == 0;
	bool images = mlp || strcmp(model, "softmax") == 0;

	if (conf_model_check(model, e) != ERR_OK)
		return NULL;
	buf_printf(&out, "{\n\t\"servers\": 1,\n\t\"workers\": 2,\n\t\"job\": {\n"
	           "\t\t\"model\": \"%s\",\n", model);
	if (images)
		buf_puts(&out, "\t\t\"data\": \"" FASHION "train-images-idx3-ubyte.gz\",\n"
		         "\t\t\"eval\": \"" FASHION "t10k-images-idx3-ubyte.gz\",\n");
	else if (custom)
		buf_puts(&out, "\t\t\"tables\": \"w:10,b:1:nodecay\",\n\t\t\"exec\": \"./gradient\",\n"
		         "\t\t\"data\": \"train.csv\",\n\t\t\"examples\": 1000,\n");
	else
		buf_puts(&out, "\t\t\"data\": \"train.csv\",\n\t\t\"eval\": \"test.csv\",\n");
	if (mlp)
		buf_puts(&out, "\t\t\"hidden\": [256],\n");
	buf_puts(&out, "\t\t\"epochs\": 3,\n\t\t\"batch\": 64,\n"
	         "\t\t\"optimizer\": \"momentum\",\n\t\t\"lr\": 0.05\n\t}\n}\n");
	return (char *)out.data;
}
