/* SPDX-License-Identifier: ISC */
#include "emit.h"

#include <ctype.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "auth/keys.h"
#include "core/json.h"
#include "core/mem.h"
#include "session/identity.h"

/* A cluster for Kubernetes, as one List: a stateful set with the coordinator's pod, a stateful set
 * of servers, an indexed job of workers, and Secrets with the keys of all of them, which are
 * generated here. */

#define DATA_PORT 7070
#define HTTP_PORT 7071
#define SECRETS   "/run/pskit"

struct kube {
	const struct emit *m;
	const char *name, *image;
	struct key_pair coordinator;
	uint8_t psk[KEY_BYTES];
	json_t *items, *keys, *joins; /* keys: the coordinator's Secret; joins: the others' */
	char *address;                /* the coordinator's host name */
};

static json_t *object_metadata(const struct kube *k, const char *suffix)
{
	return json_pack("{s:o, s:{s:s, s:s}}", "name", json_sprintf("%s%s", k->name, suffix),
	    "labels", "app.kubernetes.io/name", "pskit", "app.kubernetes.io/instance", k->name);
}

static json_t *add_object(struct kube *k, const char *api, const char *kind, const char *suffix,
    const char *member, json_t *value)
{
	json_t *o = json_pack("{s:s, s:s, s:o, s:o}", "apiVersion", api, "kind", kind, "metadata",
	    object_metadata(k, suffix), member, value);

	json_array_append_new(k->items, o);
	return o;
}

/* ---- keys ---- */

static void put_secret_file(struct kube *k, const char *word, const char *name,
    const uint8_t key[static KEY_BYTES])
{
	char *file = mem_printf("pskit.%s", name), text[48];

	key_to_text(key, text);
	json_object_set_new(k->keys, file, json_sprintf("%s %s\n", word, text));
	sodium_memzero(text, sizeof text);
	free(file);
}

/* Makes a member's key, and its join file under the name `file`. NULL: the member runs in the
 * coordinator's pod and needs no join file. */
static void make_member_key(struct kube *k, enum role role, const char *name, const char *file)
{
	char *data = mem_printf("%s:%d", k->address, DATA_PORT),
	     *http = mem_printf("%s:%d", k->address, HTTP_PORT),
	     *key_name = mem_printf("%s.key", name), *text;
	struct key_pair pair;
	struct identity_join_words words = { k->name, name, data, http, role, k->coordinator.pk,
		k->psk, pair.sk };
	json_t *join;

	key_pair_generate(&pair);
	put_secret_file(k, SECRET_WORD, key_name, pair.sk);
	join = identity_join_json(&words);
	text = json_text(join);
	if (file)
		json_object_set_new(k->joins, file, json_string(text));
	key_pair_wipe(&pair);
	free(text);
	free(key_name);
	free(data);
	free(http);
	json_decref(join);
}

/* The number of the first server in the servers' stateful set. Without replicas the coordinator's
 * process is server 0; with replicas it stores nothing. */
static int64_t first_server(const struct conf *c)
{
	return c->replicas > 1 ? 0 : 1;
}

/* Draws the coordinator's key pair, the pre-shared key and one key for each member, into k->keys
 * and k->joins. Servers below first_server() run with the coordinator and need no join file. */
static void make_all_keys(struct kube *k)
{
	const struct conf *c = k->m->conf;
	int64_t first = first_server(c);
	char name[32], *file;

	key_pair_generate(&k->coordinator);
	randombytes_buf(k->psk, sizeof k->psk);
	put_secret_file(k, PSK_WORD, "psk", k->psk);
	put_secret_file(k, SECRET_WORD, "coordinator.key", k->coordinator.sk);
	make_member_key(k, ROLE_ADMIN, "admin", NULL);
	for (int64_t i = 0; i < c->servers; i++) {
		snprintf(name, sizeof name, "server-%lld", (long long)i);
		file = mem_printf("%s-server-%lld.join", k->name, (long long)(i - first));
		make_member_key(k, ROLE_SERVER, name, i < first ? NULL : file);
		free(file);
	}
	for (int64_t i = 0; conf_trains(c) && i < c->workers.max; i++) {
		snprintf(name, sizeof name, "worker-%lld", (long long)i);
		file = mem_printf("%s.join", name);
		make_member_key(k, ROLE_WORKER, name, file);
		free(file);
	}
}

/* ---- pods ---- */

static json_t *env_from_field(const char *name, const char *path)
{
	return json_pack("{s:s, s:{s:{s:s}}}", "name", name, "valueFrom", "fieldRef", "fieldPath",
	    path);
}

/* The files of a mounted Secret are symbolic links that the group may read, which pskit refuses: so
 * the script copies them to a volume in memory first. */
static json_t *pod_template(const struct kube *k, const char *part, const char *script,
    const char *secret, const char *join)
{
	char *name = mem_printf("%s-%s", k->name, secret);
	json_t *mounts = json_pack("[{s:s, s:s}, {s:s, s:s}]", "name", "own", "mountPath", SECRETS,
	           "name", "config", "mountPath", "/etc/pskit"),
	       *env = json_pack("[o, o, o]", env_from_field("POD_NAME", "metadata.name"),
	           env_from_field("POD_IP", "status.podIP"),
	           env_from_field("POD_INDEX",
	               "metadata.annotations['batch.kubernetes.io/job-completion-index']")),
	       *container = json_pack("{s:s, s:s, s:[s, s, s], s:o, s:o}", "name", part, "image",
	           k->image, "command", "sh", "-c", script, "env", env, "volumeMounts", mounts),
	       *volumes = json_pack("[{s:s, s:{s:s}}, {s:s, s:{s:s}}, {s:s, s:{s:s}}]", "name",
	           "own", "emptyDir", "medium", "Memory", "name", "secret", "secret", "secretName",
	           name, "name", "config", "configMap", "name", k->name);

	if (join)
		json_array_append_new(mounts,
		    json_pack("{s:s, s:s, s:s}", "name", "secret", "mountPath", "/etc/pskit-join",
		        "subPathExpr", join));
	else
		json_array_append_new(mounts,
		    json_pack("{s:s, s:s}", "name", "secret", "mountPath", "/etc/pskit-keys"));
	free(name);
	return json_pack("{s:{s:{s:s, s:s, s:s}}, s:{s:o, s:[o], s:i}}", "metadata", "labels",
	    "app.kubernetes.io/name", "pskit", "app.kubernetes.io/instance", k->name,
	    "app.kubernetes.io/component", part, "spec", "volumes", volumes, "containers",
	    container, "terminationGracePeriodSeconds", 30);
}

static json_t *label_selector(const struct kube *k, const char *part)
{
	return json_pack("{s:{s:s, s:s}}", "matchLabels", "app.kubernetes.io/instance", k->name,
	    "app.kubernetes.io/component", part);
}

static json_t *first_container(json_t *template)
{
	return json_array_get(json_object_get(json_object_get(template, "spec"), "containers"), 0);
}

static json_t *http_probe(const char *path)
{
	return json_pack("{s:{s:s, s:i}, s:i}", "httpGet", "path", path, "port", HTTP_PORT,
	    "periodSeconds", 5);
}

#define JOINING "umask 077 && cp -L /etc/pskit-join " SECRETS "/me.join && exec "

/* Keys come as a mounted secret, whose files are links with wide modes; they are copied to a
 * private directory first. A stateful set gives the run directory a volume that outlives the
 * pod. */
static void add_coordinator(struct kube *k)
{
	char *script = mem_printf(
	    "umask 077 && mkdir -p " SECRETS "/keys && cp -L /etc/pskit-keys/* " SECRETS
	    "/keys/ && "
	    "CREDENTIALS_DIRECTORY=" SECRETS
	    "/keys exec ps-serve /etc/pskit/cluster.json -C /var/lib/pskit/%s.run --resume auto "
	    "--set http=0.0.0.0:%d --listen 0.0.0.0:%d --advertise %s:%d%s",
	    k->name, HTTP_PORT, DATA_PORT, k->address, DATA_PORT,
	    k->m->conf->replicas > 1 ? " --no-store" : "");
	json_t *template = pod_template(k, "coordinator", script, "keys", NULL),
	       *container = first_container(template);

	json_object_set_new(container, "readinessProbe", http_probe("/readyz"));
	json_object_set_new(container, "livenessProbe", http_probe("/livez"));
	json_array_append_new(json_object_get(container, "volumeMounts"),
	    json_pack("{s:s, s:s}", "name", "run", "mountPath", "/var/lib/pskit"));
	add_object(k, "apps/v1", "StatefulSet", "-coordinator", "spec",
	    json_pack("{s:s, s:i, s:o, s:o, s:[{s:{s:s}, s:{s:[s], s:{s:{s:s}}}}]}", "serviceName",
	        k->name, "replicas", 1, "selector", label_selector(k, "coordinator"), "template",
	        template, "volumeClaimTemplates", "metadata", "name", "run", "spec", "accessModes",
	        "ReadWriteOnce", "resources", "requests", "storage", "1Gi"));
	free(script);
}

/* Servers start in parallel, since the cluster forms only when all are there. */
static void add_servers(struct kube *k)
{
	int64_t n = k->m->conf->servers - first_server(k->m->conf);
	char *script = mem_printf(JOINING "ps-serve --join " SECRETS
	                                  "/me.join --listen 0.0.0.0:%d --advertise \"$POD_IP\"",
	    DATA_PORT);

	if (n > 0)
		add_object(k, "apps/v1", "StatefulSet", "-server", "spec",
		    json_pack("{s:s, s:I, s:s, s:o, s:o}", "serviceName", k->name, "replicas",
		        (json_int_t)n, "podManagementPolicy", "Parallel", "selector",
		        label_selector(k, "server"), "template",
		        pod_template(k, "server", script, "join", "$(POD_NAME).join")));
	free(script);
}

/* An indexed job, where the index is the rank. A worker that fails is started again, three times on
 * average. */
static void add_workers(struct kube *k)
{
	json_int_t n = (json_int_t)k->m->conf->workers.max;
	json_t *template;

	if (!conf_trains(k->m->conf))
		return;
	template = pod_template(k, "worker",
	    JOINING "ps-work train --join " SECRETS "/me.join --rank \"$POD_INDEX\"", "join",
	    "worker-$(POD_INDEX).join");
	json_object_set_new(json_object_get(template, "spec"), "restartPolicy",
	    json_string("OnFailure"));
	add_object(k, "batch/v1", "Job", "-worker", "spec",
	    json_pack("{s:s, s:I, s:I, s:I, s:o}", "completionMode", "Indexed", "completions", n,
	        "parallelism", n, "backoffLimit", 3 * n, "template", template));
}

/* ---- the List ---- */

/* Hosts and addresses of the file are of another place and are removed. */
static void add_config_map(struct kube *k)
{
	json_t *config = conf_file_json(k->m->conf);
	char *text;

	json_object_del(config, "hosts");
	json_object_del(config, "listen");
	json_object_del(config, "http");
	text = json_dumps(config, JSON_INDENT(2));
	add_object(k, "v1", "ConfigMap", "", "data", json_pack("{s:s}", "cluster.json", text));
	free(text);
	json_decref(config);
}

/* True when name is a DNS label that is short enough for the suffixes that we append. */
static bool is_kubernetes_name(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) &&
		    (name[i] != '-' || i == 0 || i + 1 == n))
			return false;
	return n > 0 && n <= 40;
}

/* One List of objects in JSON, which kubectl reads as it reads YAML. It contains secret keys that
 * are made here; the caller wipes `out`. The service has no address of its own (clusterIP None), so
 * that each pod has a name, and names pods before they are ready, because they wait for each
 * other. */
enum err_code emit_k8s(const struct emit *m, struct buf *out, struct err *e)
{
	struct kube k = { .m = m,
		.name = m->conf->name,
		.image = m->image,
		.items = json_array(),
		.keys = json_object(),
		.joins = json_object() };
	json_t *list = json_pack("{s:s, s:s, s:o}", "apiVersion", "v1", "kind", "List", "items",
	    k.items);
	enum err_code rc = is_kubernetes_name(k.name)
	    ? key_init(e)
	    : err_set(e, ERR_CONFIG,
	          "name: \"%s\" is not valid for Kubernetes: set one of at most 40 lower-case "
	          "letters, digits and - with --set name=...",
	          k.name);
	char *text;

	if (rc == ERR_OK) {
		k.address = mem_printf("%s-coordinator-0.%s", k.name, k.name);
		make_all_keys(&k);
		add_config_map(&k);
		add_object(&k, "v1", "Secret", "-keys", "stringData", json_incref(k.keys));
		add_object(&k, "v1", "Secret", "-join", "stringData", json_incref(k.joins));
		add_object(&k, "v1", "Service", "", "spec",
		    json_pack("{s:s, s:b, s:{s:s}, s:[{s:s, s:i}, {s:s, s:i}]}", "clusterIP",
		        "None", "publishNotReadyAddresses", 1, "selector",
		        "app.kubernetes.io/instance", k.name, "ports", "name", "data", "port",
		        DATA_PORT, "name", "http", "port", HTTP_PORT));
		add_coordinator(&k);
		add_servers(&k);
		add_workers(&k);
		text = json_dumps(list, JSON_INDENT(2));
		buf_printf(out, "%s\n", text);
		free(text);
	}
	key_pair_wipe(&k.coordinator);
	sodium_memzero(k.psk, sizeof k.psk);
	free(k.address);
	json_decref(k.keys);
	json_decref(k.joins);
	json_decref(list);
	return rc;
}
