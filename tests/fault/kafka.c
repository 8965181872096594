/* SPDX-License-Identifier: ISC */
/* A cluster of Kafka brokers for tests: librdkafka's mock cluster, with real sockets.
 *
 *     build/fault/kafka TOPIC:PARTITIONS[,...] [FILE]
 *
 * Writes the address of its broker to FILE (standard output without one) when it is ready, then
 * does the lines of its standard input and ends with that:
 *
 *     down    the broker closes its connections and refuses others
 *     up      it is there again
 * / */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_topics(rd_kafka_mock_cluster_t *m, char *list)
{
	for (char *at = strtok(list, ","); at; at = strtok(NULL, ",")) {
		char *colon = strchr(at, ':');
		int n = colon ? atoi(colon + 1) : 1;

		if (colon)
			*colon = '\0';
		if (rd_kafka_mock_topic_create(m, at, n, 1))
			exit(1);
	}
}

/* The address appears at once, so that a reader never sees half of it. */
static int tell_address(const char *address, const char *file)
{
	char name[4096];
	FILE *f;

	if (!file)
		return printf("%s\n", address) < 0 || fflush(stdout);
	snprintf(name, sizeof name, "%s.new", file);
	f = fopen(name, "we");
	return !f || fprintf(f, "%s\n", address) < 0 || fclose(f) || rename(name, file);
}

int main(int argc, char **argv)
{
	char why[256], line[64];
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_mock_cluster_t *m;
	rd_kafka_t *rk;

	if (argc < 2)
		return 2;
	rd_kafka_conf_set_log_cb(conf, NULL);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
	m = rk ? rd_kafka_mock_cluster_new(rk, 1) : NULL;
	if (!m)
		return 1;
	make_topics(m, argv[1]);
	if (tell_address(rd_kafka_mock_cluster_bootstraps(m), argc > 2 ? argv[2] : NULL))
		return 1;
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "down\n") == 0)
			rd_kafka_mock_broker_set_down(m, 1);
		else if (strcmp(line, "up\n") == 0)
			rd_kafka_mock_broker_set_up(m, 1);
	}
	rd_kafka_mock_cluster_destroy(m);
	rd_kafka_destroy(rk);
	return 0;
}
