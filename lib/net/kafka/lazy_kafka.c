/* SPDX-License-Identifier: ISC */
/* The functions of librdkafka that pskit calls; the library is loaded at the first call. */
#include <librdkafka/rdkafka.h>

#include "core/lazy_load.h"

#define KAFKA_CALL(type, name, params, args) \
	LAZY_CALL("librdkafka.so.1", "librdkafka1", type, rd_kafka_##name, params, args)

typedef rd_kafka_topic_partition_list_t offsets;

KAFKA_CALL(const char *, err2str, (rd_kafka_resp_err_t code), (code))
KAFKA_CALL(rd_kafka_resp_err_t, last_error, (void), ())

KAFKA_CALL(rd_kafka_conf_t *, conf_new, (void), ())
KAFKA_CALL(void, conf_destroy, (rd_kafka_conf_t * conf), (conf))
KAFKA_CALL(rd_kafka_conf_res_t, conf_set,
    (rd_kafka_conf_t * conf, const char *key, const char *value, char *why, size_t size),
    (conf, key, value, why, size))
KAFKA_CALL(void, conf_set_error_cb,
    (rd_kafka_conf_t * conf, void (*call)(rd_kafka_t *, int, const char *, void *)), (conf, call))
KAFKA_CALL(void, conf_set_log_cb,
    (rd_kafka_conf_t * conf, void (*call)(const rd_kafka_t *, int, const char *, const char *)),
    (conf, call))
KAFKA_CALL(void, conf_set_opaque, (rd_kafka_conf_t * conf, void *opaque), (conf, opaque))

KAFKA_CALL(rd_kafka_t *, new, (rd_kafka_type_t type, rd_kafka_conf_t *conf, char *why, size_t size),
    (type, conf, why, size))
KAFKA_CALL(void, destroy, (rd_kafka_t * rk), (rk))
KAFKA_CALL(int, poll, (rd_kafka_t * rk, int ms), (rk, ms))

KAFKA_CALL(rd_kafka_topic_t *, topic_new,
    (rd_kafka_t * rk, const char *topic, rd_kafka_topic_conf_t *conf), (rk, topic, conf))
KAFKA_CALL(void, topic_destroy, (rd_kafka_topic_t * topic), (topic))

KAFKA_CALL(rd_kafka_resp_err_t, metadata,
    (rd_kafka_t * rk, int all, rd_kafka_topic_t *only, const struct rd_kafka_metadata **out,
        int ms),
    (rk, all, only, out, ms))
KAFKA_CALL(void, metadata_destroy, (const struct rd_kafka_metadata *m), (m))

KAFKA_CALL(rd_kafka_resp_err_t, get_watermark_offsets,
    (rd_kafka_t * rk, const char *topic, int32_t part, int64_t *low, int64_t *high),
    (rk, topic, part, low, high))
KAFKA_CALL(rd_kafka_resp_err_t, query_watermark_offsets,
    (rd_kafka_t * rk, const char *topic, int32_t part, int64_t *low, int64_t *high, int ms),
    (rk, topic, part, low, high, ms))

KAFKA_CALL(offsets *, topic_partition_list_new, (int size), (size))
KAFKA_CALL(void, topic_partition_list_destroy, (offsets * list), (list))
KAFKA_CALL(rd_kafka_topic_partition_t *, topic_partition_list_add,
    (offsets * list, const char *topic, int32_t part), (list, topic, part))
KAFKA_CALL(rd_kafka_resp_err_t, commit, (rd_kafka_t * rk, const offsets *list, int later),
    (rk, list, later))
KAFKA_CALL(rd_kafka_resp_err_t, committed, (rd_kafka_t * rk, offsets *list, int ms), (rk, list, ms))

KAFKA_CALL(rd_kafka_queue_t *, queue_new, (rd_kafka_t * rk), (rk))
KAFKA_CALL(void, queue_destroy, (rd_kafka_queue_t * queue), (queue))
KAFKA_CALL(void, queue_io_event_enable,
    (rd_kafka_queue_t * queue, int fd, const void *bytes, size_t n), (queue, fd, bytes, n))
KAFKA_CALL(int, consume_start_queue,
    (rd_kafka_topic_t * topic, int32_t part, int64_t place, rd_kafka_queue_t *queue),
    (topic, part, place, queue))
KAFKA_CALL(int, consume_stop, (rd_kafka_topic_t * topic, int32_t part), (topic, part))
KAFKA_CALL(ssize_t, consume_batch_queue,
    (rd_kafka_queue_t * queue, int ms, rd_kafka_message_t **out, size_t n), (queue, ms, out, n))
KAFKA_CALL(void, message_destroy, (rd_kafka_message_t * message), (message))
