/* SPDX-License-Identifier: ISC */
#include <float.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "conf/conf.h"
#include "conf/conf_key.h"
#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "core/clock.h"
#include "model/model.h"
#include "tap.h"

static char dir[] = "/tmp/pskit-conf-XXXXXX";
static struct err e;

/* Does the last error begin with the key and contain the text? */
static bool says(const char *key, const char *text)
{
	size_t n = strlen(key);
	bool good = strncmp(e.msg, key, n) == 0 && strstr(e.msg + n, text) != NULL;

	if (!good)
		printf("# error: %s\n", e.msg);
	return good;
}

static char *in_dir(const char *name)
{
	return path_join(dir, name);
}

static void put(const char *name, const char *text)
{
	char *path = in_dir(name);

	if (file_replace(path, text, strlen(text), 0600, &e) != ERR_OK)
		printf("# cannot write %s: %s\n", path, e.msg);
	free(path);
}

/* Load dir/cluster.json holding text, with sets. */
static enum err_code load(const char *text, const char **sets, size_t nsets, struct conf *c)
{
	char *path = in_dir("cluster.json");
	enum err_code rc;

	put("cluster.json", text);
	e = (struct err){ 0 };
	rc = conf_load(path, sets, nsets, c, &e);
	free(path);
	return rc;
}

/* Is loading refused with the text, and with the file named first? */
static bool refused(const char *text, const char *const want)
{
	struct conf c;
	enum err_code rc = load(text, NULL, 0, &c);
	bool good = rc == ERR_CONFIG && strncmp(e.msg, dir, strlen(dir)) == 0 &&
	    strstr(e.msg, want);

	if (!good)
		printf("# %d %s\n", rc, e.msg);
	conf_release(&c);
	return good;
}

/* A row a key: another value than the default, and the JSON that it becomes;
 * text that is of no such type; text out of bounds (NULL: there are none). */
static const struct row {
	const char *path, *good, *json, *bad, *out;
} rows[] = {
	{ "name", "alpha", "\"alpha\"", "", NULL },
	{ "servers", "3", "3", "x", "0" },
	{ "servers_max", "8", "8", "-1", "1025" },
	{ "workers", "2:5", "\"2:5\"", "5:2", "4097" },
	{ "replicas", "2", "2", "1.5", "17" },
	{ "sync", "ssp:3", "\"ssp:3\"", "bulk", "ssp:1000001" },
	{ "backup", "1", "1", "", "-1" },
	{ "adapt", "backup,codec", "\"backup,codec\"", "", NULL },
	{ "deterministic", "true", "true", "maybe", NULL },
	{ "robust", "trimmed:2", "\"trimmed:2\"", "", NULL },
	{ "on_worker_loss", "wait:1500ms", "\"wait:1500ms\"", "wait", NULL },
	{ "codec", "f16", "\"f16\"", "", NULL },
	{ "pull_codec", "int8", "\"int8\"", "topk", NULL },
	{ "pull_delta", "on", "true", "some", NULL },
	{ "prefetch", "yes", "true", "maybe", NULL },
	{ "lookahead", "2", "2", "two", "65" },
	{ "row_ids", "cached", "\"cached\"", "zipped", NULL },
	{ "sparse", "admit=5,expire=100", "\"admit=5,expire=100\"", "", NULL },
	{ "via", "allreduce", "\"allreduce\"", "ring", NULL },
	{ "filter", "skip:0.5", "\"skip:0.5\"", "", NULL },
	{ "feedback", "off", "false", "2", NULL },
	{ "accumulate", "2", "2", "two", "0" },
	{ "local_steps", "4", "4", "4.0", "0" },
	{ "outer", "nesterov", "\"nesterov\"", "aver", NULL },
	{ "suite", "poly1305", "\"poly1305\"", "poly", NULL },
	{ "transport", "tcp", "\"tcp\"", "udp", NULL },
	{ "net", "100M,10ms", "\"100M,10ms\"", "", NULL },
	{ "spin", "50us", "\"50us\"", "0.5us", "11ms" },
	{ "listen", "[::1]:7000", "\"[::1]:7000\"", "::1:7000", "127.0.0.1:65536" },
	{ "http", "localhost:80", "\"localhost:80\"", "localhost", ":80" },
	{ "hosts", "a slots=4,n[0-2,7]", "[\"a slots=4\",\"n[0-2,7]\"]", "a b", "-o" },
	{ "read_only", "true", "true", "maybe", NULL },
	{ "serve_http", "127.0.0.1:80", "\"127.0.0.1:80\"", "", NULL },
	{ "serve_if", "auc >= 0.7", "\"auc >= 0.7\"", "", NULL },
	{ "serve_open", "true", "true", "maybe", NULL },
	{ "serve_tokens", "/t", "\"/t\"", "", NULL },
	{ "serve_cert", "/c.pem", "\"/c.pem\"", "", NULL },
	{ "serve_key", "/k.pem", "\"/k.pem\"", "", NULL },
	{ "serve_ca", "/ca.pem", "\"/ca.pem\"", "", NULL },
	{ "serve_delay", "2ms", "\"2ms\"", "soon", "2s" },
	{ "serve_deadline", "5s", "\"5s\"", "soon", "1ms" },
	{ "serve_connections", "100", "100", "many", "0" },
	{ "serve_rows", "100", "100", "many", "0" },
	{ "serve_body", "4M", "4194304", "4X", "2G" },
	{ "serve_rated", "[\"/c,d\"]", "[\"/c,d\"]", "[\"\"]", "[" },
	{ "serve_memory", "64M", "67108864", "4X", "1K" },
	{ "serve_redis", "unix:/s", "\"unix:/s\"", "", NULL },
	{ "serve_redis_values", "text", "\"text\"", "hex", NULL },
	{ "serve_redis_connections", "100", "100", "many", "0" },
	{ "mem_limit", "4M", "4194304", "4X", NULL },
	{ "spill_dir", "/var/spill", "\"/var/spill\"", "", NULL },
	{ "quota_bytes", "4M", "4194304", "4X", NULL },
	{ "quota_pushes", "40", "40", "", "-1" },
	{ "heartbeat", "50ms", "\"50ms\"", "fast", "1ms" },
	{ "lease", "1.5s", "\"1500ms\"", "1.0005s", "2h" },
	{ "deadline", "2m", "\"120s\"", "-1s", "0s" },
	{ "join_wait", "1h", "\"3600s\"", "-1s", "40d" },
	{ "checkpoint_every", "30s", "\"30s\"", "often", "-5" },
	{ "keep_last", "5", "5", "all", "0" },
	{ "keep_runs", "5", "5", "some", "-1" },
	{ "checkpoint_deltas", "9", "9", "all", "-1" },
	{ "keep_every", "100", "100", "some", "-1" },
	{ "keep_best", "2", "2", "best", "-1" },
	{ "checkpoint_to", "s3://bucket/runs", "\"s3://bucket/runs\"", "", NULL },
	{ "state", "etcd://10.0.0.1:2379,10.0.0.2:2379/pskit",
	    "\"etcd://10.0.0.1:2379,10.0.0.2:2379/pskit\"", "", NULL },
	{ "log_level", "debug", "\"debug\"", "loud", NULL },
	{ "job.model", "softmax", "\"softmax\"", "", NULL },
	{ "job.tables", "w:3x2:glorot,b:2", "\"w:3x2:glorot,b:2\"", "", NULL },
	{ "job.examples", "1000", "1000", "1.5", "-1" },
	{ "job.exec", "./gradient -v", "\"./gradient -v\"", "", NULL },
	{ "job.command", "./train --fast", "\"./train --fast\"", "", NULL },
	{ "job.data", "/a,/b?format=csv", "[\"/a\",\"/b?format=csv\"]", "/a,", "[1]" },
	{ "job.eval", "[\"/c,d\"]", "[\"/c,d\"]", "[\"\"]", "[" },
	{ "job.format", "csv", "\"csv\"", "", NULL },
	{ "job.label", "y", "\"y\"", "", NULL },
	{ "job.weight", "w", "\"w\"", "", NULL },
	{ "job.ignore", "a,b", "\"a,b\"", "", NULL },
	{ "job.categories", "zip", "\"zip\"", "", NULL },
	{ "job.text", "body", "\"body\"", "", NULL },
	{ "job.text_weight", "tfidf", "\"tfidf\"", "", NULL },
	{ "job.lists", "kinds", "\"kinds\"", "", NULL },
	{ "job.columns", "a,b,y", "\"a,b,y\"", "", NULL },
	{ "job.id", "id", "\"id\"", "", NULL },
	{ "job.missing", "zero", "\"zero\"", "", NULL },
	{ "job.user", "u", "\"u\"", "", NULL },
	{ "job.item", "i", "\"i\"", "", NULL },
	{ "job.rating", "r", "\"r\"", "", NULL },
	{ "job.positive", "4", "\"4\"", "", NULL },
	{ "job.bits", "18", "\"18\"", "", NULL },
	{ "job.norm", "l2", "\"l2\"", "", NULL },
	{ "job.pairs", "ab", "\"ab\"", "", NULL },
	{ "job.validate", "20%", "\"20%\"", "", NULL },
	{ "job.data_memory", "2M", "2097152", "1", NULL },
	{ "job.scale", "minmax", "\"minmax\"", "huge", NULL },
	{ "job.bad_gradients", "skip", "\"skip\"", "maybe", NULL },
	{ "job.bad_lines", "skip:100", "\"skip:100\"", "", NULL },
	{ "job.cache", "/parsed", "\"/parsed\"", "", NULL },
	{ "job.loss", "huber:2", "\"huber:2\"", "", NULL },
	{ "job.class_weight", "0:1,1:5", "\"0:1,1:5\"", "", NULL },
	{ "job.hidden", "256,128", "[256,128]", "256,x", "0" },
	{ "job.factors", "16", "16", "0", "-1" },
	{ "job.bottom", "512,256", "[512,256]", "512,x", "0" },
	{ "job.cross", "3", "3", "0", "17" },
	{ "job.negatives", "100", "100", "-1", "1000001" },
	{ "job.activation", "tanh", "\"tanh\"", "gelu", NULL },
	{ "job.epochs", "3", "3", "1e3", "-1" },
	{ "job.steps", "1000", "1000", "many", "-1" },
	{ "job.batch", "128", "128", "b", "0" },
	{ "job.optimizer", "adam", "\"adam\"", "", NULL },
	{ "job.rules", "w*:lr=0.1", "\"w*:lr=0.1\"", "", NULL },
	{ "job.lr", "1e-3", "0.001", "nan", "0" },
	{ "job.schedule", "cosine:100", "\"cosine:100\"", "", NULL },
	{ "job.momentum", "0.5", "0.5", "x", "1" },
	{ "job.beta1", "0.5", "0.5", "x", "-0.1" },
	{ "job.beta2", "0.99", "0.99", "x", "1" },
	{ "job.eps", "1e-8", "1e-8", "inf", "-1" },
	{ "job.initial_accumulator", "0.1", "0.1", "x", "-1" },
	{ "job.rho", "0.95", "0.95", "x", "1" },
	{ "job.ftrl_beta", "2", "2.0", "x", "-1" },
	{ "job.l1", "0.25", "0.25", "x", "-1" },
	{ "job.l2", "0.5", "0.5", "x", "-1" },
	{ "job.clip_norm", "5", "5.0", "no", "-1" },
	{ "job.frozen", "w,b", "\"w,b\"", "", NULL },
	{ "job.seed", "9007199254740991", "9007199254740991", "x", "9007199254740992" },
	{ "job.top_k", "3", "3", "x", "0" },
	{ "job.eval_every", "10", "10", "x", "-1" },
	{ "job.stop", "auc patience=5", "\"auc patience=5\"", "", NULL },
	{ "job.slow", "20ms,5%x7", "\"20ms,5%x7\"", "", NULL },
	{ "job.init", "glorot", "\"glorot\"", "", NULL },
	{ "job.init_from", "/m.safetensors", "\"/m.safetensors\"", "", NULL },
};

static bool has_value(const struct conf_key *k, const struct conf *c, const char *text)
{
	json_t *got = conf_value_json(k, c);
	json_t *want = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
	bool same = got && want ? json_equal(got, want) : !got && !want;

	json_decref(got);
	json_decref(want);
	return same;
}

static void test_row(const struct conf_key *k, const struct row *row)
{
	const char *leaf = strncmp(k->path, "job.", 4) == 0 ? k->path + 4 : k->path;
	char *good = mem_printf("%s=%s", k->path, row->good);
	char *shorter = mem_printf("%s=%s", leaf, row->good);
	char *bad = mem_printf("%s=%s", k->path, row->bad);
	char *out = mem_printf("%s=%s", k->path, row->out ? row->out : "");
	struct conf c, before;

	conf_init(&c);
	conf_init(&before);
	ok(!conf_given(&c, k) && !has_value(k, &c, row->json), "%s is at its default", k->path);
	ok(conf_set(&c, bad, &e) == ERR_CONFIG && says(k->path, ": "), "%s: %s is refused", k->path,
	    row->bad);
	if (row->out)
		ok(conf_set(&c, out, &e) == ERR_CONFIG && says(k->path, ": "), "%s: %s is refused",
		    k->path, row->out);
	ok(!conf_diff(&c, &before), "%s: what is refused changes nothing", k->path);
	ok(conf_set(&c, good, &e) == ERR_OK && has_value(k, &c, row->json) && conf_given(&c, k),
	    "--set %s", good);
	conf_release(&c);
	conf_init(&c);
	ok(conf_set(&c, shorter, &e) == ERR_OK && has_value(k, &c, row->json), "--set %s", shorter);
	conf_release(&c);
	conf_release(&before);
	free(good);
	free(shorter);
	free(bad);
	free(out);
}

/* The first row of a key; NULL: it has none. */
static const struct row *row_of(const char *path)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].path, path) == 0)
			return &rows[i];
	return NULL;
}

static bool is_key(const char *path)
{
	const struct conf_key *k = conf_key_find(path, NULL);

	return k && strcmp(k->path, path) == 0;
}

static void test_keys(void)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		ok(row_of(rows[i].path) == &rows[i] && is_key(rows[i].path),
		    "the row of %s is of a key, and the only one", rows[i].path);
	for (size_t i = 0; i < n; i++) {
		const struct row *row = row_of(k[i].path);

		if (ok(row != NULL, "%s has a row of tests", k[i].path))
			test_row(&k[i], row);
		ok(k[i].help[0] && conf_type_name(k[i].type), "%s has help and a type", k[i].path);
	}
}

static void test_defaults(void)
{
	struct conf c;

	conf_init(&c);
	ok(c.servers == 1 && c.workers.min == 1 && c.workers.max == 1 && c.replicas == 1,
	    "one server, one worker, one copy");
	ok(c.sync.ops == &sync_bsp && c.on_worker_loss.policy == CONF_SHRINK && c.feedback, "bsp");
	ok(c.heartbeat == 200000000 && c.lease == 5000000000 && c.deadline == 60000000000,
	    "times in nanoseconds");
	ok(!c.name && !c.job.model && !c.has_job && c.job.data.n == 0, "no name, no job");
	ok(c.job.batch == 64 && fabs(c.job.lr - 0.1) < 1e-12 && c.job.seed == 1,
	    "the job's numbers");
	conf_release(&c);
	conf_release(&c);
	ok(!c.codec, "released twice");
}

#define JOB(more) "{\"job\": {\"model\": \"softmax\", \"data\": \"d.csv\", \"epochs\": 1" more "}}"
/* A job that has tables whose pushes are applied on arrival, and this key. */
#define ON_ARRIVAL(key) \
	"{" key ", \"job\": {\"model\": \"softmax\", \"data\": \"d.csv\", \"epochs\": 1, " \
	"\"rules\": \"w*:sync=asp\"}}"

/* A key that nobody has set has the value of the model or of the update rule in force. */
static void test_defaults_of_job(void)
{
	const struct conf_key *lr = conf_key_find("job.lr", NULL),
	                      *hidden = conf_key_find("job.hidden", NULL);
	const struct model_info *model;
	struct conf c, d, f;
	json_t *o, *file, *set = json_pack("{s:s}", "job.optimizer", "adagrad");
	char *text;

	for (size_t i = 0; (model = model_info_at(i)) != NULL; i++) {
		text = mem_printf("{\"job\": {\"model\": \"%s\", \"data\": \"d.csv\"%s}}",
		    model->name, model->task == MODEL_OUTSIDE ? ", \"steps\": 1" : "");

		ok(load(text, NULL, 0, &c) == ERR_OK, "%s has defaults that go together: %s",
		    model->name, e.msg);
		for (const char *p = model->defaults; *p; p += strspn(p, " ")) {
			char *name = mem_printf("%.*s", (int)strcspn(p, "="), p);
			const struct conf_key *k = conf_key_find(name, &e);

			ok(k && conf_key_derives(k) && conf_origin_of(&c, k) == CONF_FROM_MODEL,
			    "%s decides %s", model->name, name);
			free(name);
			p += strcspn(p, " ");
		}
		conf_release(&c);
		free(text);
	}
	load("{\"job\": {\"model\": \"linear\", \"data\": \"d.csv\"}}", NULL, 0, &c);
	ok(strcmp(c.job.optimizer, "dog") == 0 && !conf_rule_follows_lr(&c) &&
	        !conf_set(&c, "lr=0.01", &e) && strcmp(c.job.optimizer, "adam") == 0 &&
	        conf_rule_follows_lr(&c) && c.job.lr == 0.01,
	    "a learning rate chooses a rule that has one");
	ok(!conf_set(&c, "optimizer=dog", &e) && strcmp(c.job.optimizer, "dog") == 0 &&
	        !conf_rule_follows_lr(&c),
	    "unless the user chooses the rule, too");
	conf_release(&c);
	load("{\"job\": {\"model\": \"mlp\", \"data\": \"d.csv\"}}", NULL, 0, &c);
	ok(conf_origin_of(&c, hidden) == CONF_FROM_MODEL && c.job.hidden.n == 1,
	    "mlp has a hidden layer");
	ok(!conf_set(&c, "optimizer=rmsprop", &e) && c.job.lr == 0.001 &&
	        conf_origin_of(&c, lr) == CONF_FROM_RULE && c.job.rho == 0.9,
	    "a rule brings its learning rate: %g", c.job.lr);
	o = conf_to_json(&c);
	ok(!conf_from_json(o, &d, &e) && !conf_given(&d, lr) && d.job.lr == 0.001,
	    "written and read, it is still the rule's");
	file = conf_file_json(&c);
	text = json_dumps(file, 0);
	ok(load(text, NULL, 0, &f) == ERR_OK && !conf_given(&f, lr) && f.job.lr == 0.001 &&
	        !conf_given(&f, hidden) && !json_object_get(file, "by_default"),
	    "also as a cluster file: %s", e.msg);
	conf_release(&f);
	free(text);
	json_decref(file);
	ok(!conf_apply(&d, set, &e) && d.job.lr == 0.01,
	    "and follows a live change of the rule: %g", d.job.lr);
	ok(!conf_copy_live(&d, &c, &e) && d.job.lr == 0.001 && !conf_given(&d, lr),
	    "live settings are copied with their origin");
	ok(!conf_set(&d, "lr=0.3", &e) && !conf_apply(&d, set, &e) && d.job.lr == 0.3 &&
	        conf_origin_of(&d, lr) == CONF_FROM_USER,
	    "the user's learning rate stays");
	conf_release(&d);
	ok(c.job.epochs > 0 && conf_epochs(&c, 1000, 0) == 200 && conf_epochs(&c, 40000, 9) == 10 &&
	        conf_epochs(&c, 1000000000, 9) == (uint64_t)c.job.epochs &&
	        conf_epochs(&c, 0, 0) > 0,
	    "small data are passed over more often");
	ok(!conf_set(&c, "epochs=3", &e) && conf_epochs(&c, 1000, 0) == 3,
	    "unless the user says how often");
	ok(conf_worker_heartbeat(&c) == c.heartbeat && !conf_set(&c, "workers=25", &e) &&
	        conf_worker_heartbeat(&c) == c.heartbeat && !conf_set(&c, "workers=64", &e) &&
	        conf_worker_heartbeat(&c) == 512 * NSEC_PER_MSEC &&
	        !conf_set(&c, "workers=256", &e) &&
	        conf_worker_heartbeat(&c) == 600 * NSEC_PER_MSEC,
	    "heartbeats of many workers are rarer");
	ok(!conf_set(&c, "lease=2", &e) && conf_worker_heartbeat(&c) == 250 * NSEC_PER_MSEC &&
	        !conf_set(&c, "heartbeat=0.3", &e) && conf_worker_heartbeat(&c) == c.heartbeat,
	    "but not too rare for the lease, and not more frequent than is configured");
	conf_release(&c);
	load("{\"job\": {\"model\": \"fm\", \"data\": \"d.csv\"}}", NULL, 0, &c);
	ok(conf_epochs(&c, 40000, 4000) == 10 &&
	        conf_epochs(&c, 40000, 4001) == (uint64_t)c.job.epochs,
	    "but not where features have vectors and few examples");
	conf_release(&c);
	load("{\"job\": {\"model\": \"linear\", \"data\": \"d.csv\"}}", NULL, 0, &c);
	ok(conf_epochs(&c, 5000, 9) == 200 && conf_epochs(&c, 2000, 9) == 500 &&
	        conf_epochs(&c, 100, 9) == 500,
	    "least squares need more passes over few examples, up to a limit");
	conf_release(&c);
	ok(!load("{\"job\": {\"model\": \"mf\", \"data\": \"d.csv?format=ratings\"}}", NULL, 0,
	       &c) &&
	        c.job.epochs > 0 && conf_epochs(&c, 1000, 9) == (uint64_t)c.job.epochs,
	    "and factors of ratings none, which overfit: %s, %lld", e.msg, (long long)c.job.epochs);
	conf_release(&c);
	ok(!load(JOB(", \"steps\": 9"), NULL, 0, &c) && c.job.epochs == 1, "epochs and steps");
	conf_release(&c);
	load("{\"job\": {\"model\": \"mlp\", \"data\": \"d.csv\", \"steps\": 9}}", NULL, 0, &c);
	ok(c.job.epochs == 0, "steps alone end the training");
	ok(!conf_set(&c, "steps=0", &e) && c.job.epochs > 0,
	    "without them the model says how often");
	ok(!conf_set(&c, "stop=accuracy", &e) && c.job.epochs == 0,
	    "and so does a metric that stops it");
	conf_release(&c);
	json_decref(o);
	json_decref(set);
}

/* A key that job.rules leaves open has the job's value under the job's optimizer, else the rule's own. */
static void test_table_rules(void)
{
	struct conf c;
	struct conf_rule r;
	struct table_rules_choice v, w, b;

	ok(!load(
	       JOB(", \"lr\": 0.5, \"l2\": 0.25, \"eps\": 2, \"rules\": \"v:l1=3 optimizer=ftrl, w*:lr=0.125 eps=0\""),
	       NULL, 0, &c) &&
	        !conf_job_rule(&c, &r, &e),
	    "rules of tables: %s", e.msg);
	v = conf_rule_of_table(&r, "v");
	w = conf_rule_of_table(&r, "w12");
	b = conf_rule_of_table(&r, "b");
	ok(v.rule == &optim_rule_ftrl && v.hyper->lr == 0.1f && v.hyper->l1 == 3 &&
	        v.hyper->l2 == 0.25f && v.hyper->ftrl_beta == 1,
	    "another rule has its own constants, and the job's l2");
	ok(w.rule == &optim_rule_adagrad && w.hyper->lr == 0.125f && w.hyper->l2 == 0.25f &&
	        w.hyper->eps == 1e-10f,
	    "the same rule has the job's, but for those that are given");
	ok(b.rule == r.rule && b.hyper == &r.hyper && b.hyper->lr == 0.5f && b.hyper->eps == 2,
	    "a table that is not named goes by the job");
	ok(!v.on_arrival && !w.on_arrival && !b.on_arrival, "all tables have the job's sync");
	ok(!conf_set(&c, "job.rules=w1:sync=bsp,w*:sync=asp lr=0.25", &e) &&
	        !conf_job_rule(&c, &r, &e) && conf_rule_of_table(&r, "w2").on_arrival &&
	        conf_rule_of_table(&r, "w2").hyper->lr == 0.25f &&
	        !conf_rule_of_table(&r, "w1").on_arrival && !conf_rule_of_table(&r, "b").on_arrival,
	    "sync of tables: %s", e.msg);
	ok(!conf_set(&c, "job.rules=v:optimizer=ftrl", &e), "and away again");
	ok(!conf_set(&c, "local_steps=2", &e) && !conf_server_rule(&c, &r, &e) &&
	        conf_rule_of_table(&r, "v").rule == &optim_rule_sgd,
	    "with local steps these are the workers' rules");
	conf_release(&c);
}

static void test_types_in_json(void)
{
	static const char *const bad[][2] = {
		{ "{\"servers\": \"many\"}",
		    "servers: must be a whole number or auto, got \"many\"" },
		{ "{\"servers\": 2.5}", "servers: must be a whole number or auto, got 2.5" },
		{ "{\"servers\": null}", "servers: must be a whole number or auto, got null" },
		{ "{\"workers\": \"many\"}",
		    "workers: must be a whole number, MIN:MAX or auto, got \"many\"" },
		{ "{\"backup\": \"2\"}", "backup: must be a whole number, got \"2\"" },
		{ "{\"backup\": \"auto\"}", "backup: must be a whole number, got \"auto\"" },
		{ "{\"servers\": 2000}", "servers: must be <= 1024, got 2000" },
		{ "{\"deterministic\": \"yes\"}",
		    "deterministic: must be true or false, got \"yes\"" },
		{ "{\"sync\": 1}", "sync: must be a string, got 1" },
		{ "{\"sync\": \"ssp\"}", "sync: must be" },
		{ "{\"suite\": \"none\"}",
		    "suite: must be auto, poly1305, chacha20poly1305 or aes256gcm, "
		    "got \"none\"" },
		{ "{\"job\": {\"lr\": \"0.1\"}}", "job.lr: must be a number, got \"0.1\"" },
		{ "{\"job\": {\"lr\": -1}}", "job.lr: must be > 0, got -1" },
		{ "{\"job\": {\"momentum\": 1}}", "job.momentum: must be < 1, got 1" },
		{ "{\"job\": {\"hidden\": [1, \"2\"]}}",
		    "job.hidden: must be a list of whole numbers, got "
		    "[1,\"2\"]" },
		{ "{\"job\": {\"hidden\": [1, 0]}}", "job.hidden: must be >= 1, got 0" },
		{ "{\"job\": {\"data\": [1]}}",
		    "job.data: must be a path or a list of paths, got [1]" },
		{ "{\"job\": {\"data\": {\"a\": 1}}}", "job.data: must be a path" },
		{ "{\"job\": 1}", "job: must be an object" },
		{ "[]", "must contain one JSON object" },
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(refused(bad[i][0], bad[i][1]), "%s is refused", bad[i][0]);
}

/* "auto" stands for a number everywhere, and only the struct knows that it was "auto". */
static void test_automatic(void)
{
	const struct conf_key *servers = conf_key_find("servers", NULL),
	                      *workers = conf_key_find("workers", NULL);
	const char *auto_workers[] = { "workers=auto", "deterministic=true" };
	struct conf c, copy;
	json_t *o;

	ok(load("{\"servers\": \"auto\", \"workers\": \"auto\"}", NULL, 0, &c) == ERR_OK &&
	        c.servers >= 1 && c.workers.min >= 1 && c.workers.min == c.workers.max,
	    "auto: %lld servers and %lld workers", (long long)c.servers, (long long)c.workers.max);
	ok(conf_automatic(&c, servers) && conf_automatic(&c, workers), "both are automatic");
	o = conf_to_json(&c);
	ok(json_is_integer(json_object_get(o, "servers")) &&
	        json_is_integer(json_object_get(o, "workers")) &&
	        conf_from_json(o, &copy, &e) == ERR_OK && !conf_automatic(&copy, servers) &&
	        copy.workers.max == c.workers.max,
	    "a written configuration has numbers");
	conf_release(&copy);
	json_decref(o);
	ok(conf_set(&c, "servers=3", &e) == ERR_OK && !conf_automatic(&c, servers) &&
	        conf_automatic(&c, workers),
	    "a number replaces auto");
	conf_reset(&c, "workers");
	ok(!conf_automatic(&c, workers), "so does the default");
	conf_release(&c);
	ok(load("{}", auto_workers, 2, &c) == ERR_CONFIG &&
	        says("--set workers=auto", "a number when deterministic"),
	    "not with deterministic: %s", e.msg);
	conf_release(&c);
}

static void test_unknown(void)
{
	struct conf c;
	const char *sets[] = { "learning_rate=1" };
	const char *typo[] = { "momentm=0.5" };
	const char *late[] = { "servers=2", "lr=-1" };

	ok(refused("{\"sevrers\": 2}", "sevrers: no such key; did you mean \"servers\"?"),
	    "a typo");
	ok(refused("{\"job\": {\"optimiser\": \"sgd\"}}",
	       "job.optimiser: no such key; did you mean \"job.optimizer\"?"),
	    "a typo in the job");
	ok(refused("{\"jobs\": {}}", "jobs: no such key; did you mean \"job\"?"),
	    "a typo in the name of the group");
	ok(refused("{\"qqqqqqqq\": 2}", "qqqqqqqq: no such key"), "nothing near");
	ok(refused(JOB(", \"lr\": 2 }, \"by_default\": [\"job.lr\"], \"threads\": { "),
	       "by_default: no such key"),
	    "nor is a list of what nobody has set one");
	ok(refused("{\"lr\": 0.1}", "lr: belongs in \"job\""), "a job's key outside");
	ok(refused("{\"job\": {\"servers\": 1}}", "job.servers: belongs outside"), "a key inside");
	ok(load("{\"servers\": 1, \"servers\": 2}", NULL, 0, &c) != ERR_OK &&
	        strstr(e.msg, "cluster.json"),
	    "a duplicate key: %s", e.msg);
	ok(load("{\"servers\": 1", NULL, 0, &c) != ERR_OK && strstr(e.msg, "cluster.json"),
	    "no JSON: %s", e.msg);
	ok(load("{}", sets, 1, &c) == ERR_CONFIG &&
	        says("--set learning_rate=1: ", "no such key; did you mean \"job.lr\"?"),
	    "--set of an unknown key");
	ok(load("{}", typo, 1, &c) == ERR_CONFIG && says("--set", "did you mean \"momentum\""),
	    "--set with a typo");
	ok(load("{}", late, 2, &c) == ERR_CONFIG &&
	        says("--set lr=-1: job.lr", "must be > 0, got -1"),
	    "the second --set");
	conf_init(&c);
	ok(conf_set(&c, "servers", &e) == ERR_USAGE && says("\"servers\"", "key=value"), "no =");
	ok(conf_set(&c, "job={}", &e) == ERR_CONFIG, "job is no key");
	conf_release(&c);
	ok(conf_load("/nonexistent/x", NULL, 0, &c, &e) == ERR_NOTFOUND && says("no such", "/x"),
	    "no file");
	ok(conf_load("/nonexistent/x", NULL, 0, &c, NULL) == ERR_NOTFOUND,
	    "no file, no error wanted");
}

static void test_load(void)
{
	struct conf c;
	const char *sets[] = { "lr=0.5", "workers=4", "name=beta", "servers=2", "servers=3" };
	char *stem = in_dir("cluster"), *want = in_dir("d.csv");

	ok(load("{\"servers\": 2}", NULL, 0, &c) == ERR_OK && !c.has_job && c.servers == 2 &&
	        strcmp(c.name, "cluster") == 0,
	    "a cluster without a job, named by its file");
	conf_release(&c);
	ok(load(JOB(""), NULL, 0, &c) == ERR_OK && c.has_job && c.job.data.n == 1 &&
	        strcmp(c.job.data.item[0], want) == 0,
	    "a job; its data is beside the file");
	conf_release(&c);
	ok(load(JOB(""), sets, 5, &c) == ERR_OK && c.servers == 3 && c.workers.max == 4 &&
	        strcmp(c.name, "beta") == 0 && c.job.lr > 0.4,
	    "--set goes over the file, in order");
	conf_release(&c);
	ok(conf_load(stem, NULL, 0, &c, &e) == ERR_OK, "found without .json");
	conf_release(&c);
	free(stem);
	free(want);
}

static void test_paths(void)
{
	struct conf c;
	char here[4096];
	const char *sets[] = { "eval=e.csv" };
	char *want;

	ok(load(
	       "{\"job\": {\"model\": \"softmax\", \"steps\": 1, \"data\": [\"d.csv?format=csv&label=1\", "
	       "\"?.csv\", \"*.csv?label=last\", \"/dev/null\"], \"eval\": \"-\"}}",
	       NULL, 0, &c) == ERR_OK,
	    "suffixes and globs: %s", e.msg);
	want = in_dir("d.csv?format=csv&label=1");
	ok(c.job.data.n == 4 && strcmp(c.job.data.item[0], want) == 0, "the suffix stays");
	free(want);
	want = in_dir("?.csv");
	ok(c.job.data.n == 4 && strcmp(c.job.data.item[1], want) == 0, "the glob stays");
	free(want);
	ok(c.job.data.n == 4 && strcmp(c.job.data.item[3], "/dev/null") == 0, "absolute stays");
	ok(c.job.eval.n == 1 && strcmp(c.job.eval.item[0], "-") == 0, "- stays");
	conf_release(&c);
	ok(load(JOB(""), sets, 1, &c) == ERR_CONFIG && strstr(e.msg, "job.eval: no such file \"") &&
	        getcwd(here, sizeof here) && strstr(e.msg, here),
	    "--set is relative to the current directory");
	ok(chdir(dir) == 0 && load(JOB(""), sets, 1, &c) == ERR_OK, "and is found there");
	conf_release(&c);
	ok(chdir(here) == 0, "back");
	ok(refused(JOB(", \"eval\": \"d.csv?format=cvs\""),
	       "unknown format \"cvs\"; did you mean \"csv\""),
	    "no such format");
	ok(refused(JOB(", \"eval\": \"none.csv\""), "job.eval: no such file \""), "no such file");
	ok(refused(JOB(", \"eval\": \"none.csv?label=1\""), "none.csv\""),
	    "its suffix is not in the name");
	ok(refused(JOB(", \"eval\": \"*.none\""), "job.eval: no file matches \""), "no match");
	ok(refused(JOB(", \"eval\": \".\""), "is a directory"), "a directory");
	ok(refused(JOB(", \"init\": \"x.safetensors\""), "job.init: no such file"),
	    "no first parameters");
	ok(refused(JOB(", \"init\": \"d.csv\""), "job.init: must be auto, zeros, glorot or"),
	    "no safetensors");
}

/* The directory's own name is no pattern. */
static void test_glob_directory(void)
{
	struct conf c;
	char *sub = in_dir("a[1]"), *file = in_dir("a[1]/x.json");

	file_mkdirs(sub, 0700, &e);
	put("a[1]/x.csv", "1\n");
	put("a[1]/x.json",
	    "{\"job\": {\"model\": \"softmax\", \"steps\": 1, \"data\": [\"*.csv\", \"x.csv\"]}}");
	ok(conf_load(file, NULL, 0, &c, &e) == ERR_OK, "a glob below a[1]: %s", e.msg);
	ok(c.job.data.n == 2 && strstr(c.job.data.item[1], "a[1]/x.csv"), "and a file");
	conf_release(&c);
	free(sub);
	free(file);
}

static void test_validate(void)
{
	static const char *const bad[][2] = {
		{ "{\"job\": {}}", "job.model: must" },
		{ "{\"job\": {\"model\": \"sofmax\"}}",
		    "job.model: no model \"sofmax\"; did you mean \"softmax\"?" },
		{ "{\"job\": {\"model\": \"softmax\", \"epochs\": 1}}", "job.data: must name" },
		{ "{\"job\": {\"model\": \"softmax\", \"data\": \"d.csv\", \"epochs\": 0}}",
		    "job.epochs: " },
		{ JOB(", \"optimizer\": \"adm\""),
		    "job.optimizer: no update rule \"adm\"; did you mean" },
		{ JOB(", \"rules\": \"w\""), "job.rules: must be none or TABLE:key=value" },
		{ JOB(", \"rules\": \"w:lr=1,,b:lr=1\""),
		    "job.rules: must be none or TABLE:key=value" },
		{ JOB(", \"rules\": \"w: \""), "job.rules: w: a key is missing" },
		{ JOB(", \"rules\": \"w:optimizer=adm\""),
		    "job.rules: w: no update rule \"adm\"; did you mean \"adam\"?" },
		{ JOB(", \"rules\": \"w:optimiser=adam\""),
		    "job.rules: w: no key \"optimiser\"; did you mean \"optimizer\"?" },
		{ JOB(", \"rules\": \"w:batch=3\""), "job.rules: w: no key \"batch\"" },
		{ JOB(", \"rules\": \"w:lr=-1\""), "job.rules: w: job.lr: must be > 0, got -1" },
		{ JOB(", \"rules\": \"w:beta1=0.5\""), "job.rules: w: adagrad has no beta1" },
		{ JOB(", \"rules\": \"w:lr=1, w:lr=2\""), "job.rules: names w twice" },
		{ JOB(", \"rules\": \"w:lr\""),
		    "job.rules: w: \"lr\" must have the form key=value" },
		{ JOB(", \"rules\": \"w:sync=ssp:3\""),
		    "job.rules: w: sync of a table must be bsp or asp, got \"ssp:3\"" },
		{ JOB(", \"rules\": \"w:snyc=asp\""),
		    "job.rules: w: no key \"snyc\"; did you mean \"sync\"?" },
		{ ON_ARRIVAL("\"sync\": \"asp\""), "sync: must be bsp with job.rules w*:sync=asp" },
		{ ON_ARRIVAL("\"sync\": \"ssp:1\""), "sync: must be bsp with job.rules" },
		{ ON_ARRIVAL("\"deterministic\": true"),
		    "deterministic: must be false with job.rules w*:sync=asp" },
		{ ON_ARRIVAL("\"via\": \"allreduce\""), "via: must be servers with job.rules" },
		{ ON_ARRIVAL("\"local_steps\": 2"), "local_steps: must be 1 with job.rules" },
		{ ON_ARRIVAL("\"workers\": 4, \"robust\": \"trimmed:1\""),
		    "robust: must be none with job.rules" },
		{ JOB(", \"l1\": 0.1"), "job.l1: only job.optimizer ftrl has l1" },
		{ JOB(", \"schedule\": \"cosin:5\""), "job.schedule" },
		{ JOB(", \"loss\": \"sofmax\""),
		    "job.loss: there is no loss \"sofmax\"; did you mean softmax?" },
		{ JOB(", \"class_weight\": \"0:1,1\""),
		    "job.class_weight: must be none, balanced or CLASS:WEIGHT,..." },
		{ "{\"job\": {\"model\": \"linear\", \"data\": \"d.csv\", \"epochs\": 1, \"class_weight\": \"balanced\"}}",
		    "job.class_weight: model linear does not learn classes" },
		{ JOB(", \"loss\": \"huber\""),
		    "job.loss: model softmax cannot use the loss huber" },
		{ JOB(", \"loss\": \"softmax:2\""),
		    "job.loss: softmax has no argument, got \"2\"" },
		{ JOB(", \"loss\": \"quantile:1\""),
		    "job.loss: quantile:X needs a number between 0 and 1, got \"1\"" },
		{ JOB(", \"loss\": \"huber:-1\""),
		    "job.loss: huber:X needs a number above 0, got \"-1\"" },
		{ "{\"job\": {\"model\": \"logistic\", \"data\": \"d.csv\", \"epochs\": 1, \"loss\": \"hinge\", \"stop\": \"log_loss\"}}",
		    "job.stop: evaluations of model logistic with job.loss hinge do not have the metric log_loss" },
		{ JOB(", \"hidden\": [4]"), "job.hidden: model softmax has no hidden" },
		{ JOB(", \"activation\": \"tanh\""),
		    "job.activation: model softmax has no hidden" },
		{ "{\"job\": {\"model\": \"logistic\", \"data\": \"d.csv\", \"epochs\": 1, \"hidden\": [3]}}",
		    "job.hidden: " },
		{ "{\"job\": {\"model\": \"mlp\", \"data\": \"d.csv\", \"hidden\": []}}",
		    "job.hidden: " },
		{ "{\"workers\": 2, \"job\": {\"model\": \"softmax\", \"data\": \"-\", \"epochs\": 1}}",
		    "job.data: \"-\" requires one worker, got workers 2" },
		{ "{\"job\": {\"model\": \"softmax\", \"data\": \"-\", \"eval\": \"-\", \"epochs\": 1}}",
		    "job.eval: \"-\"" },
		{ "{\"deterministic\": true, \"sync\": \"asp\"}",
		    "sync: must be bsp when deterministic" },
		{ "{\"deterministic\": true, \"backup\": 1}",
		    "backup: must be 0 when deterministic" },
		{ "{\"deterministic\": true, \"on_worker_loss\": \"shrink\"}",
		    "on_worker_loss: must be wait:T" },
		{ "{\"deterministic\": true, \"workers\": \"1:2\"}",
		    "workers: must be one number" },
		{ "{\"codec\": \"rww\"}", "codec: no codec \"rww\"" },
		{ "{\"replicas\": 4}", "replicas: must be" },
		{ "{\"backup\": 1}", "backup: must be less than workers, which may be 1, got 1" },
		{ "{\"backup\": 2, \"workers\": \"2:4\"}",
		    "backup: must be less than workers, which may be 2, got 2" },
		{ "{\"backup\": 1, \"workers\": 4, \"sync\": \"asp\"}",
		    "backup: 1 requires sync bsp" },
		{ "{\"accumulate\": 65536, \"local_steps\": 65536}",
		    "local_steps: batch times accumulate times local_steps must be at most" },
		{ "{\"outer\": \"nesterov\"}", "outer: \"nesterov\" requires local_steps above 1" },
		{ "{\"outer\": \"nesterov\", \"local_steps\": 4, \"sync\": \"asp\"}",
		    "outer: \"nesterov\" requires sync bsp" },
		{ "{\"outer\": \"nesterov\", \"local_steps\": 4, \"sync\": \"asp:scaled\"}",
		    "set outer=average and sync=asp:scaled" },
		{ "{\"outer\": \"adam\", \"local_steps\": 4, \"sync\": \"ssp:2\"}",
		    "outer: \"adam\" requires sync bsp" },
		{ "{\"name\": \"a/b\"}", "name: must be" },
		{ "{\"name\": \"..\"}", "name: must be" },
		{ "{\"lease\": \"200ms\"}",
		    "lease: must be at least twice the heartbeat of 0.2 s, got 0.2 s" },
		{ "{\"on_worker_loss\": \"wait:0s\"}", "on_worker_loss: the time of wait" },
	};
	struct conf c;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(refused(bad[i][0], bad[i][1]), "%s is refused", bad[i][0]);
	ok(load("{\"deterministic\": true}", NULL, 0, &c) == ERR_OK &&
	        c.on_worker_loss.policy == CONF_WAIT && c.on_worker_loss.wait == 30000000000,
	    "deterministic waits for a lost worker");
	ok(conf_set(&c, "deterministic=false", &e) == ERR_OK &&
	        c.on_worker_loss.policy == CONF_SHRINK,
	    "and no longer, when it is not");
	conf_release(&c);
	ok(load(JOB(", \"optimizer\": \"ftrl\", \"l1\": 0.1"), NULL, 0, &c) == ERR_OK,
	    "ftrl has l1");
	conf_release(&c);
	ok(load(
	       "{\"job\": {\"model\": \"mlp\", \"data\": \"d.csv\", \"epochs\": 1, \"hidden\": [8]}}",
	       NULL, 0, &c) == ERR_OK,
	    "mlp has hidden layers: %s", e.msg);
	conf_release(&c);
}

static void test_round_trip(void)
{
	struct conf c, d;
	json_t *o, *again;
	char *diff;
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	conf_init(&c);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char *set = mem_printf("%s=%s", rows[i].path, rows[i].good);
		conf_set(&c, set, &e);
		free(set);
	}
	o = conf_to_json(&c);
	ok(conf_from_json(o, &d, &e) == ERR_OK, "read back");
	diff = conf_diff(&c, &d);
	ok(!diff, "every key comes back: %s", diff ? diff : "no difference");
	free(diff);
	again = conf_to_json(&d);
	ok(json_equal(o, again), "and is written alike");
	ok(json_object_size(o) + json_object_size(json_object_get(o, "job")) - 2 == n,
	    "all are there, and the list of those that nobody has set");
	ok(strcmp(json_object_iter_key(json_object_iter(o)), k[0].path) == 0,
	    "in the table's order");
	json_decref(o);
	json_decref(again);
	conf_release(&d);
	conf_init(&d);
	d.has_job = true;
	diff = conf_diff(&c, &d);
	ok(diff && strncmp(diff, "name, servers, ", 15) == 0 && strstr(diff, "job.lr, job.sch"),
	    "%s", diff ? diff : "");
	free(diff);
	conf_release(&d);
	conf_release(&c);
	conf_init(&c);
	o = conf_to_json(&c);
	ok(!json_object_get(o, "job"), "no job, no job");
	json_decref(o);
	conf_init(&d);
	d.has_job = true;
	diff = conf_diff(&c, &d);
	ok(diff && strcmp(diff, "job") == 0, "a job is a difference");
	free(diff);
	conf_release(&c);
	conf_release(&d);
}

static void test_template(void)
{
	struct conf c;
	char *text = conf_template("mlp", &e);
	json_t *o = text ? json_loads(text, 0, NULL) : NULL;

	ok(o && conf_from_json(o, &c, &e) == ERR_OK && strcmp(c.job.model, "mlp") == 0 &&
	        c.job.hidden.n == 1 && c.job.hidden.item[0] == 128,
	    "a template for mlp");
	if (o && access(c.job.data.item[0], R_OK) == 0)
		ok(conf_validate(&c, &e) == ERR_OK, "is valid where the data is");
	conf_release(&c);
	json_decref(o);
	free(text);
	text = conf_template("logistic", &e);
	o = text ? json_loads(text, 0, NULL) : NULL;
	ok(o && conf_from_json(o, &c, &e) == ERR_OK, "a template for logistic");
	conf_release(&c);
	json_decref(o);
	free(text);
	ok(!conf_template("mpl", &e) && says("job.model", "did you mean \"mlp\""), "no such model");
}

/* The batches of a job by the number of its examples. */
static void batches_of_data(const char *model, const char *set, uint64_t examples, int64_t batch,
    int64_t local_steps)
{
	const char *sets[] = { mem_printf("job.model=%s", model), "job.data=/dev/null", set };
	struct conf_batches b = { 0 };
	struct conf c;
	bool good = !conf_load(NULL, sets, set ? 3 : 2, &c, &e);

	if (good)
		b = conf_batches_of_data(&c, examples);
	ok(good && b.batch == batch && b.local_steps == local_steps,
	    "%s, %s, %llu examples: batches of %lld, %lld local steps", model,
	    set ? set : "defaults", (unsigned long long)examples, (long long)b.batch,
	    (long long)b.local_steps);
	if (good)
		conf_release(&c);
	free((char *)(uintptr_t)sets[0]);
}

static void batches_by_data(void)
{
	batches_of_data("mf", NULL, 80000, 256, 1);
	batches_of_data("mf", NULL, 0, 256, 1);
	batches_of_data("mf", NULL, 4000000, 1, 65536);
	batches_of_data("mf", NULL, 1 << 18, 1, 1 << 14);
	batches_of_data("mf", "workers=2", 4000000, 3906, 1);
	batches_of_data("mf", "workers=2", 40000000, 4096, 1);
	batches_of_data("mf", "job.batch=64", 4000000, 64, 1);
	batches_of_data("mf", "job.clip_norm=1", 4000000, 256, 1);
	batches_of_data("fm", NULL, 4000000, 64, 1);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	put("d.csv", "1,2\n");
	put("e.csv", "1,2\n");
	test_defaults();
	test_defaults_of_job();
	test_keys();
	test_table_rules();
	test_types_in_json();
	test_automatic();
	test_unknown();
	test_load();
	test_paths();
	test_glob_directory();
	test_validate();
	test_round_trip();
	test_template();
	file_remove_tree(dir, NULL);
	batches_by_data();
	return tap_done();
}
