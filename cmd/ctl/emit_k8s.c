/* SPDX-License-Identifier: ISC */
#include "emit.h"

#include <ctype.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/keys.h"
#include "conf/conf_key.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "session/identity.h"

/* A cluster for Kubernetes, as one List: a stateful set with the coordinator's pod, a stateful set
 * of servers, an indexed job (or a stateful set) of workers, and Secrets with the keys of all of
 * them.
 *
 * Any pod may be deleted at any time. The coordinator keeps its state on a volume, and continues
 * from it; the servers hand their partitions over, or have replicas; a worker exits with 75, by
 * which its job starts it again. So the coordinator's pod stores no partitions.
 *
 * With --standby there are two such pods, whose state is in etcd. Each runs the same command, and has
 * a name of its own, because only the pods that run have one of the service: join files list both
 * names. The one that stands by does not listen, so no probe asks it, and it ends by itself when it
 * cannot go on. */

#define DATA_PORT 7070
#define HTTP_PORT 7071
#define SECRETS   "/run/pskit"
/* Pods may wait for a node for this long. Their processes wait for each other meanwhile. */
#define SCHEDULING "168h"
/* The user and group of all processes; the image has it. */
#define UID 10001
/* How long a pod may take to end, in seconds: a server hands its partitions over, a worker finishes
 * its step, the coordinator only closes its files. */
#define GRACE_COORDINATOR 30
#define GRACE_SERVER      600
#define GRACE_WORKER      60
/* A container that ends is started again so often for each worker before the job counts as failed:
 * each move to another node is one such end. */
#define TRIES 20
/* A job that has ended is removed after a day. */
#define TTL 86400
/* Kubernetes accepts at most 1 MiB in a Secret. */
#define SECRET_MAX 1000000u
/* The least memory of a container, and the least value of job.data_memory. */
#define MEMORY_MIN      (UINT64_C(64) << 20)
#define DATA_MEMORY_MIN (1 << 20)

struct kube;

/* How workers run. */
struct worker_objects {
	void (*add)(struct kube *k);
	/* Adds what old clusters do not know; NULL: nothing. */
	void (*add_newer)(struct kube *k);
	/* The name of a worker's join file, to be freed. */
	char *(*join_file)(const struct kube *k, const char *worker);
};

struct kube {
	const struct emit *m;
	const struct worker_objects *workers;
	const char *name, *image;
	const struct emit_k8s_options *o;
	uint64_t memory;      /* limit of each container; 0: none */
	struct key_pair seed; /* all other keys are derived from its secret key */
	struct key_pair coordinator;
	uint8_t psk[KEY_BYTES];
	json_t *items, *keys, *joins; /* keys: the coordinator's Secret; joins: the others' */
	struct buf further;           /* lines of authorized_keys for servers above `servers` */
	char *address;                /* the name of the coordinator's service */
};

/* The coordinators' pods with --standby */
#define COORDINATORS 2

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

/* Derives 32 secret bytes for `what`. The same seed gives the same keys, so that a List that is
 * emitted again does not replace the keys of pods that run. */
static void derive_key(const struct kube *k, const char *what, uint8_t out[static KEY_BYTES])
{
	char *text = mem_printf("pskit k8s %s\n%s", k->name, what);

	crypto_generichash(out, KEY_BYTES, (const uint8_t *)text, strlen(text), k->seed.sk,
	    KEY_BYTES);
	free(text);
}

static void derive_pair(const struct kube *k, const char *what, struct key_pair *out)
{
	uint8_t sk[KEY_BYTES];

	derive_key(k, what, sk);
	key_pair_from_secret(out, sk);
	sodium_memzero(sk, sizeof sk);
}

static void put_secret_file(struct kube *k, const char *word, const char *name,
    const uint8_t key[static KEY_BYTES])
{
	char *file = mem_printf("pskit.%s", name), text[48];

	key_to_text(key, text);
	json_object_set_new(k->keys, file, json_sprintf("%s %s\n", word, text));
	sodium_memzero(text, sizeof text);
	free(file);
}

/* The addresses of the coordinators at this port, a fresh list. */
static char *coordinator_addresses(const struct kube *k, int port)
{
	struct buf list = BUF_INIT;

	for (int i = 0; k->o->standby && i < COORDINATORS; i++)
		buf_printf(&list, "%s%s-%d.%s:%d", i ? "," : "", k->address, i, k->address, port);
	if (!k->o->standby)
		buf_printf(&list, "%s:%d", k->address, port);
	return (char *)list.data;
}

/* Makes a member's key, which the coordinator's run directory gets, and its join file under the
 * name `file` (NULL: none, for the administrator in the coordinator's pod). */
static void make_member_key(struct kube *k, enum role role, const char *name, const char *file)
{
	char *data = coordinator_addresses(k, DATA_PORT),
	     *http = coordinator_addresses(k, HTTP_PORT), *key_name = mem_printf("%s.key", name),
	     *text;
	struct key_pair pair;
	struct identity_join_words words = { k->name, name, data, http, role, k->coordinator.pk,
		k->psk, pair.sk };
	json_t *join;

	derive_pair(k, name, &pair);
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

/* The largest number of servers that may run. */
static int64_t most_servers(const struct conf *c)
{
	return c->servers_max > c->servers ? c->servers_max : c->servers;
}

/* Makes the key of a server that may join later, for which the run directory has no key of its
 * own. */
static void admit_further_server(struct kube *k, const char *name)
{
	struct key_pair pair;
	char text[48];

	derive_pair(k, name, &pair);
	key_to_text(pair.pk, text);
	buf_printf(&k->further, "%s x25519:%s %s\n", role_name(ROLE_SERVER), text, name);
	key_pair_wipe(&pair);
}

/* Derives the coordinator's key pair, the pre-shared key and one key for each member, into k->keys
 * and k->joins. A member's join file has the name of its pod; in an indexed job, that of its
 * index. */
static void make_all_keys(struct kube *k)
{
	const struct conf *c = k->m->conf;
	char name[32], *file;

	derive_pair(k, "coordinator", &k->coordinator);
	derive_key(k, "psk", k->psk);
	put_secret_file(k, PSK_WORD, "psk", k->psk);
	put_secret_file(k, SECRET_WORD, "coordinator.key", k->coordinator.sk);
	make_member_key(k, ROLE_ADMIN, "admin", NULL);
	for (int64_t i = 0; i < most_servers(c); i++) {
		snprintf(name, sizeof name, "server-%lld", (long long)i);
		file = mem_printf("%s-server-%lld.join", k->name, (long long)i);
		make_member_key(k, ROLE_SERVER, name, file);
		if (i >= c->servers)
			admit_further_server(k, name);
		free(file);
	}
	for (int64_t i = 0; conf_trains(c) && i < c->workers.max; i++) {
		snprintf(name, sizeof name, "worker-%lld", (long long)i);
		file = k->workers->join_file(k, name);
		make_member_key(k, ROLE_WORKER, name, file);
		free(file);
	}
	if (k->further.len)
		json_object_set_new(k->keys, "pskit.authorized_keys",
		    json_string((char *)k->further.data));
}

/* ---- pods ---- */

static json_t *env_from_field(const char *name, const char *path)
{
	return json_pack("{s:s, s:{s:{s:s}}}", "name", name, "valueFrom", "fieldRef", "fieldPath",
	    path);
}

/* A volume of Kubernetes, and where the container has it. */
static void add_mount(json_t *mounts, const char *volume, const char *path)
{
	json_array_append_new(mounts, json_pack("{s:s, s:s}", "name", volume, "mountPath", path));
}

/* Adds the volumes of --mount, CLAIM:PATH, of which all pods only read. */
static void add_claims(const struct kube *k, json_t *volumes, json_t *mounts)
{
	for (size_t i = 0; i < k->o->mounts->n; i++) {
		const char *item = k->o->mounts->item[i], *path = strchr(item, ':') + 1;
		char *name = mem_printf("mount-%zu", i),
		     *claim = mem_printf("%.*s", (int)(path - 1 - item), item);

		json_array_append_new(volumes,
		    json_pack("{s:s, s:{s:s, s:b}}", "name", name, "persistentVolumeClaim",
		        "claimName", claim, "readOnly", 1));
		json_array_append_new(mounts,
		    json_pack("{s:s, s:s, s:b}", "name", name, "mountPath", path, "readOnly", 1));
		free(claim);
		free(name);
	}
}

/* Makes the resources that the container asks for, and its limits, by which pskit sizes itself
 * (core/procstat.h). */
static json_t *container_resources(const struct kube *k)
{
	json_t *requests = json_pack("{s:s, s:s}", "cpu", k->o->cpus ? k->o->cpus : "500m",
	           "memory", k->o->memory ? k->o->memory : "256Mi"),
	       *limits = json_object(), *all = json_pack("{s:o}", "requests", requests);

	if (k->o->cpus)
		json_object_set_new(limits, "cpu", json_string(k->o->cpus));
	if (k->o->memory)
		json_object_set_new(limits, "memory", json_string(k->o->memory));
	if (k->o->cpus || k->o->memory)
		json_object_set(all, "limits", limits);
	json_decref(limits);
	return all;
}

/* A process without rights, which writes only to its volumes. */
static json_t *container_security(void)
{
	return json_pack("{s:b, s:b, s:{s:[s]}}", "allowPrivilegeEscalation", 0,
	    "readOnlyRootFilesystem", 1, "capabilities", "drop", "ALL");
}

static json_t *pod_security(void)
{
	return json_pack("{s:b, s:i, s:i, s:i, s:{s:s}}", "runAsNonRoot", 1, "runAsUser", UID,
	    "runAsGroup", UID, "fsGroup", UID, "seccompProfile", "type", "RuntimeDefault");
}

/* The files of a mounted Secret are symbolic links that the group may read, which pskit refuses: so
 * the script copies them to a volume in memory first. join: the name of the join file in the
 * Secret; NULL: the Secret has the coordinator's keys. */
static json_t *pod_template(const struct kube *k, const char *part, const char *script,
    const char *secret, const char *join, int grace)
{
	char *name = mem_printf("%s-%s", k->name, secret);
	json_t *mounts = json_array(),
	       *env = json_pack("[o, o]", env_from_field("POD_NAME", "metadata.name"),
	           env_from_field("POD_IP", "status.podIP")),
	       *container = json_pack("{s:s, s:s, s:[s, s, s], s:o, s:o, s:o, s:o}", "name", part,
	           "image", k->image, "command", "sh", "-c", script, "env", env, "resources",
	           container_resources(k), "securityContext", container_security(), "volumeMounts",
	           mounts),
	       *volumes = json_pack("[{s:s, s:{s:s}}, {s:s, s:{}}, {s:s, s:{s:s}}, {s:s, s:{s:s}}]",
	           "name", "own", "emptyDir", "medium", "Memory", "name", "tmp", "emptyDir", "name",
	           "secret", "secret", "secretName", name, "name", "config", "configMap", "name",
	           k->name);

	if (k->o->env_secret)
		json_object_set_new(container, "envFrom",
		    json_pack("[{s:{s:s}}]", "secretRef", "name", k->o->env_secret));
	add_mount(mounts, "own", SECRETS);
	add_mount(mounts, "tmp", "/tmp");
	add_mount(mounts, "config", "/etc/pskit");
	add_claims(k, volumes, mounts);
	if (join)
		json_array_append_new(mounts,
		    json_pack("{s:s, s:s, s:s}", "name", "secret", "mountPath", "/etc/pskit-join",
		        "subPathExpr", join));
	else
		add_mount(mounts, "secret", "/etc/pskit-keys");
	free(name);
	/* A name that is not known yet must not keep a process from asking for it again. */
	return json_pack(
	    "{s:{s:{s:s, s:s, s:s}}, s:{s:o, s:o, s:[o], s:{s:[{s:s, s:s}]}, s:i, s:b}}",
	    "metadata", "labels", "app.kubernetes.io/name", "pskit", "app.kubernetes.io/instance",
	    k->name, "app.kubernetes.io/component", part, "spec", "securityContext", pod_security(),
	    "volumes", volumes, "containers", container, "dnsConfig", "options", "name", "timeout",
	    "value", "1", "terminationGracePeriodSeconds", grace, "automountServiceAccountToken",
	    0);
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
	return json_pack("{s:{s:s, s:i}, s:i, s:i}", "httpGet", "path", path, "port", HTTP_PORT,
	    "periodSeconds", 5, "timeoutSeconds", 3);
}

/* A probe that counts only when it has failed so often in a row. */
static json_t *with_failures(json_t *probe, int n)
{
	json_object_set_new(probe, "failureThreshold", json_integer(n));
	return probe;
}

/* A server has no HTTP: does it take connections? */
static json_t *data_probe(void)
{
	return json_pack("{s:{s:i}, s:i, s:i}", "tcpSocket", "port", DATA_PORT, "periodSeconds", 10,
	    "timeoutSeconds", 3);
}

/* The pods of a part run on different nodes if there are some. */
static json_t *separate_nodes(const struct kube *k, const char *part)
{
	return json_pack("{s:{s:[{s:i, s:{s:s, s:o}}]}}", "podAntiAffinity",
	    "preferredDuringSchedulingIgnoredDuringExecution", "weight", 100, "podAffinityTerm",
	    "topologyKey", "kubernetes.io/hostname", "labelSelector", label_selector(k, part));
}

#define JOINING "umask 077 && cp -L /etc/pskit-join " SECRETS "/me.join && "

/* Keys come as a mounted secret, whose files are links with wide modes; they are copied to a
 * private directory first. A stateful set gives the run directory a volume that outlives the
 * pod. Reading a large state may take minutes: until then only the startup probe counts. */
static void add_coordinator(struct kube *k)
{
	char *script = mem_printf(
	    "umask 077 && mkdir -p " SECRETS "/keys && cp -L /etc/pskit-keys/* " SECRETS
	    "/keys/ && "
	    "CREDENTIALS_DIRECTORY=" SECRETS
	    "/keys exec ps-serve /etc/pskit/cluster.json -C /var/lib/pskit/%s.run %s--no-store --resume auto "
	    "--returns --set http=0.0.0.0:%d --listen 0.0.0.0:%d --advertise %s%s:%d",
	    k->name, k->o->standby ? "--standby " : "", HTTP_PORT, DATA_PORT,
	    k->o->standby ? "\"$POD_NAME\"." : "", k->address, DATA_PORT);
	json_t *template = pod_template(k, "coordinator", script, "keys", NULL, GRACE_COORDINATOR),
	       *container = first_container(template);

	if (k->o->standby) {
		json_object_set_new(json_object_get(template, "spec"), "affinity",
		    separate_nodes(k, "coordinator"));
	} else {
		json_object_set_new(container, "startupProbe",
		    with_failures(http_probe("/livez"), 120));
		json_object_set_new(container, "livenessProbe",
		    with_failures(http_probe("/livez"), 6));
		json_object_set_new(container, "readinessProbe", http_probe("/readyz"));
	}
	add_mount(json_object_get(container, "volumeMounts"), "run", "/var/lib/pskit");
	add_object(k, "apps/v1", "StatefulSet", "-coordinator", "spec",
	    json_pack("{s:s, s:i, s:s, s:o, s:o, s:[{s:{s:s}, s:{s:[s], s:{s:{s:s}}}}]}",
	        "serviceName", k->o->standby ? k->address : k->name, "replicas",
	        k->o->standby ? COORDINATORS : 1, "podManagementPolicy",
	        k->o->standby ? "Parallel" : "OrderedReady", "selector",
	        label_selector(k, "coordinator"), "template", template, "volumeClaimTemplates",
	        "metadata", "name", "run", "spec", "accessModes", "ReadWriteOnce", "resources",
	        "requests", "storage", k->o->storage));
	free(script);
}

/* A stateful set whose pods start and end in parallel: the cluster forms only when all are
 * there. */
static void add_parallel_set(struct kube *k, const char *part, int64_t n, json_t *template)
{
	char *suffix = mem_printf("-%s", part);

	add_object(k, "apps/v1", "StatefulSet", suffix, "spec",
	    json_pack("{s:s, s:I, s:s, s:o, s:o}", "serviceName", k->name, "replicas",
	        (json_int_t)n, "podManagementPolicy", "Parallel", "selector",
	        label_selector(k, part), "template", template));
	free(suffix);
}

static void add_servers(struct kube *k)
{
	char *script = mem_printf(JOINING
	    "exec ps-serve --join " SECRETS
	    "/me.join --listen 0.0.0.0:%d --advertise \"$POD_IP\" --timeout " SCHEDULING,
	    DATA_PORT);
	json_t *template = pod_template(k, "server", script, "join", "$(POD_NAME).join",
	    GRACE_SERVER),
	       *container = first_container(template);

	json_object_set_new(container, "startupProbe", with_failures(data_probe(), 60));
	json_object_set_new(container, "readinessProbe", data_probe());
	json_object_set_new(container, "livenessProbe", with_failures(data_probe(), 6));
	add_parallel_set(k, "server", k->m->conf->servers, template);
	free(script);
}

/* An indexed job, where the index is the rank. It has an index for each rank that may run. */
static void add_worker_job(struct kube *k)
{
	json_int_t n = (json_int_t)k->m->conf->workers.max;
	json_t *template = pod_template(k, "worker",
	    JOINING "exec ps-work train --join " SECRETS
	            "/me.join --rank \"$POD_INDEX\" --returns --timeout " SCHEDULING,
	    "join", "worker-$(POD_INDEX).join", GRACE_WORKER);

	json_object_set_new(json_object_get(template, "spec"), "restartPolicy",
	    json_string("OnFailure"));
	json_array_append_new(json_object_get(first_container(template), "env"),
	    env_from_field("POD_INDEX",
	        "metadata.annotations['batch.kubernetes.io/job-completion-index']"));
	add_object(k, "batch/v1", "Job", "-worker", "spec",
	    json_pack("{s:s, s:I, s:I, s:I, s:i, s:o}", "completionMode", "Indexed", "completions",
	        n, "parallelism", n, "backoffLimit", TRIES * n, "ttlSecondsAfterFinished", TTL,
	        "template", template));
}

static char *join_file_of_index(const struct kube *k, const char *worker)
{
	(void)k;
	return mem_printf("%s.join", worker);
}

/* A stateful set, for clusters without indexed jobs. It starts each container again that ends; so a
 * worker that is not needed any more leaves a shell that waits. */
static void add_worker_set(struct kube *k)
{
	add_parallel_set(k, "worker", k->m->conf->workers.max,
	    pod_template(k, "worker",
	        JOINING "{ ps-work train --join " SECRETS
	                "/me.join --rank \"${POD_NAME##*-}\" --returns --timeout " SCHEDULING
	                " & worker=$!; trap 'kill $worker' TERM; "
	                "while wait $worker; code=$?; kill -0 $worker 2>/dev/null; do :; done; "
	                "[ $code -eq 0 ] || exit $code; "
	                "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done; }",
	        "join", "$(POD_NAME).join", GRACE_WORKER));
}

static char *join_file_of_pod(const struct kube *k, const char *worker)
{
	return mem_printf("%s-%s.join", k->name, worker);
}

/* At most one server at a time may be moved to another node: it hands its partitions over first,
 * and its successor gets them again. */
static void add_disruption_budget(struct kube *k)
{
	add_object(k, "policy/v1", "PodDisruptionBudget", "-server", "spec",
	    json_pack("{s:i, s:o}", "maxUnavailable", 1, "selector", label_selector(k, "server")));
}

/* ---- the List ---- */

/* Sets the limits in the configuration by those of the containers, unless the cluster file has
 * them: half of the memory for a server's tables, and a quarter for a worker's data. They are the
 * same for all processes, so they are not left to each of them. */
static void limit_memory(const struct kube *k, json_t *config)
{
	const struct conf *c = k->m->conf;
	json_int_t of_data = (json_int_t)(k->memory / 4);

	if (k->memory && !c->mem_limit)
		json_object_set_new(config, "mem_limit", json_integer((json_int_t)(k->memory / 2)));
	if (k->memory && c->has_job && (uint64_t)of_data < c->job.data_memory &&
	    of_data >= DATA_MEMORY_MIN && !conf_given(c, conf_key_find("job.data_memory", NULL)))
		json_object_set_new(json_object_get(config, "job"), "data_memory",
		    json_integer(of_data));
}

/* Hosts and addresses of the file are of another place and are removed. */
static void add_config_map(struct kube *k)
{
	json_t *config = conf_file_json(k->m->conf);
	char *text;

	json_object_del(config, "hosts");
	json_object_del(config, "listen");
	json_object_del(config, "http");
	limit_memory(k, config);
	if (!k->m->conf->join_wait)
		json_object_set_new(config, "join_wait", json_string(SCHEDULING));
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

/* Each mount is CLAIM:PATH. */
static enum err_code check_mounts(const struct opt_list *mounts, struct err *e)
{
	for (size_t i = 0; i < mounts->n; i++) {
		const char *path = strchr(mounts->item[i], ':');

		if (!path || path == mounts->item[i] || path[1] != '/')
			return err_set(e, ERR_USAGE, "--mount %s: must be CLAIM:/PATH",
			    mounts->item[i]);
	}
	return ERR_OK;
}

/* Reads --memory, as Kubernetes writes it ("512Mi"). */
static enum err_code read_memory(struct kube *k, struct err *e)
{
	const char *text = k->o->memory;
	size_t n = text ? strlen(text) : 0;
	char *size = mem_printf("%s%s", text ? text : "0", n && text[n - 1] == 'i' ? "B" : "");
	enum err_code rc = ERR_OK;

	if (!num_size(size, &k->memory) || (text && k->memory < MEMORY_MIN))
		rc = err_set(e, ERR_USAGE, "--memory %s: must be a size of at least 64Mi, as 512Mi",
		    text);
	free(size);
	return rc;
}

static enum err_code check_secret_size(const json_t *secret, struct err *e)
{
	char *text = json_text(secret);
	size_t size = strlen(text);

	sodium_memzero(text, size);
	free(text);
	return size < SECRET_MAX
	    ? ERR_OK
	    : err_set(e, ERR_LIMIT,
	          "the keys of all servers and workers have %zu bytes, and a Secret of "
	          "Kubernetes has room for %u: reduce the number of workers",
	          size, SECRET_MAX);
}

/* Loads the seed of all keys, or draws it when the cluster is emitted for the first time. */
static enum err_code find_seed(struct kube *k, struct err *e)
{
	enum err_code rc = key_pair_load(k->o->keys, &k->seed, e);

	if (rc != ERR_NOTFOUND)
		return rc;
	*e = (struct err){ 0 };
	rc = key_pair_create(k->o->keys, &k->seed, e);
	if (!rc)
		fprintf(stderr,
		    "ps-ctl: %s was made: all keys of this cluster come from it; keep it, and keep it secret\n",
		    k->o->keys);
	return rc;
}

/* A service names the pods of a part, also before they are ready, because they wait for each other.
 * NULL: it gets an address of its own, which stays when its pod moves to another node. So servers
 * and workers find the coordinator again without waiting until caches of DNS have forgotten its
 * former address. */
static void add_service(struct kube *k, const char *suffix, const char *part, const char *address)
{
	json_t *spec = json_pack("{s:b, s:{s:s, s:s}, s:[{s:s, s:i}, {s:s, s:i}]}",
	    "publishNotReadyAddresses", 1, "selector", "app.kubernetes.io/instance", k->name,
	    "app.kubernetes.io/component", part, "ports", "name", "data", "port", DATA_PORT, "name",
	    "http", "port", HTTP_PORT);

	if (address)
		json_object_set_new(spec, "clusterIP", json_string(address));
	add_object(k, "v1", "Service", suffix, "spec", spec);
}

static void add_all_objects(struct kube *k)
{
	add_config_map(k);
	add_object(k, "v1", "Secret", "-keys", "stringData", json_incref(k->keys));
	add_object(k, "v1", "Secret", "-join", "stringData", json_incref(k->joins));
	add_service(k, "", "server", "None");
	add_service(k, "-coordinator", "coordinator", k->o->standby ? "None" : NULL);
	add_coordinator(k);
	add_servers(k);
	if (conf_trains(k->m->conf))
		k->workers->add(k);
	if (k->workers->add_newer)
		k->workers->add_newer(k);
}

/* Appends one List of objects in JSON, which kubectl reads as it reads YAML; takes the reference. The caller
 * wipes `out`. */
static void put_list(json_t *items, struct buf *out)
{
	json_t *list = json_pack("{s:s, s:s, s:o}", "apiVersion", "v1", "kind", "List", "items",
	    items);
	char *text = json_dumps(list, JSON_INDENT(2));

	buf_printf(out, "%s\n", text);
	sodium_memzero(text, strlen(text));
	free(text);
	json_decref(list);
}

/* ---- a Kustomize base ---- */

#define BASE_OBJECTS "cluster.json"
#define BASE_SECRETS "secrets.json"
#define BASE_ENTRY   "kustomization.yaml"

/* Writes those objects that are Secrets, or the others, to a file of the base. */
static enum err_code write_base_list(const struct kube *k, const char *name, bool secrets,
    struct err *e)
{
	char *path = path_join(k->o->base, name);
	json_t *few = json_array(), *item;
	struct buf text = BUF_INIT;
	enum err_code rc;
	size_t i;

	json_array_foreach(k->items, i, item) {
		if ((strcmp(json_str(item, "kind", ""), "Secret") == 0) == secrets)
			json_array_append(few, item);
	}
	put_list(few, &text);
	rc = file_replace(path, text.data, text.len, secrets ? 0600 : 0644, e);
	sodium_memzero(text.data, text.len);
	buf_release(&text);
	free(path);
	return rc;
}

/* Writes the base. The file that kubectl reads first may have been changed by the user, and is kept. */
static enum err_code write_base(const struct kube *k, struct err *e)
{
	static const char entry[] =
	    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
	    "resources:\n- " BASE_OBJECTS "\n- " BASE_SECRETS "\n";
	char *path = path_join(k->o->base, BASE_ENTRY);
	enum err_code rc = file_mkdirs(k->o->base, 0755, e);

	if (!rc)
		rc = write_base_list(k, BASE_OBJECTS, false, e);
	if (!rc)
		rc = write_base_list(k, BASE_SECRETS, true, e);
	if (!rc && access(path, F_OK) != 0)
		rc = file_replace(path, entry, sizeof entry - 1, 0644, e);
	if (!rc)
		fprintf(stderr,
		    "ps-ctl: %s is a base for kubectl apply -k; " BASE_SECRETS
		    " has the keys of all processes: keep it secret\n",
		    k->o->base);
	free(path);
	return rc;
}

/* ---------------------------------------------------------------------------------------- */

static enum err_code put_objects(const struct emit *m, const struct worker_objects *workers,
    struct buf *out, struct err *e)
{
	struct kube k = { .m = m,
		.workers = workers,
		.name = m->conf->name,
		.image = m->k8s->image,
		.o = m->k8s,
		.items = json_array(),
		.keys = json_object(),
		.joins = json_object(),
		.further = BUF_INIT };
	enum err_code rc = is_kubernetes_name(k.name)
	    ? key_init(e)
	    : err_set(e, ERR_CONFIG,
	          "name: \"%s\" is not valid for Kubernetes: set one of at most 40 lower-case "
	          "letters, digits and - with --set name=...",
	          k.name);

	if (!rc)
		rc = check_mounts(k.o->mounts, e);
	if (!rc && k.o->standby && !conf_is_named(m->conf->state))
		rc = err_set(e, ERR_CONFIG,
		    "--standby: the pods of two coordinators have no volume in common: set the key state to an "
		    "etcd, as --set state=etcd://HOST:2379/pskit");
	if (!rc)
		rc = read_memory(&k, e);
	if (!rc)
		rc = find_seed(&k, e);
	if (!rc) {
		k.address = mem_printf("%s-coordinator", k.name);
		make_all_keys(&k);
		rc = check_secret_size(k.joins, e);
	}
	if (!rc) {
		add_all_objects(&k);
		if (k.o->base)
			rc = write_base(&k, e);
		else
			put_list(json_incref(k.items), out);
	}
	key_pair_wipe(&k.seed);
	key_pair_wipe(&k.coordinator);
	sodium_memzero(k.psk, sizeof k.psk);
	buf_release(&k.further);
	free(k.address);
	json_decref(k.keys);
	json_decref(k.joins);
	json_decref(k.items);
	return rc;
}

enum err_code emit_k8s_jobs(const struct emit *m, struct buf *out, struct err *e)
{
	static const struct worker_objects jobs = { add_worker_job, add_disruption_budget,
		join_file_of_index };

	return put_objects(m, &jobs, out, e);
}

enum err_code emit_k8s_sets(const struct emit *m, struct buf *out, struct err *e)
{
	static const struct worker_objects sets = { add_worker_set, NULL, join_file_of_pod };

	return put_objects(m, &sets, out, e);
}
