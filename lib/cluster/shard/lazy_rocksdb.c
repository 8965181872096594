/* SPDX-License-Identifier: ISC */
/* The functions of RocksDB that pskit calls; the library is loaded at the first call. */
#include <rocksdb/c.h>

#include "conf/conf.h"
#include "core/lazy_load.h"
#include "shard/spill.h"

#define LIBRARY "librocksdb.so.7.8"
#define ROCKS_CALL(type, name, params, args) \
	LAZY_CALL(LIBRARY, CONF_SPILL_PACKAGE, type, rocksdb_##name, params, args)

bool spill_is_possible(void)
{
	return lazy_is_there(LIBRARY);
}

typedef rocksdb_options_t options;
typedef rocksdb_block_based_table_options_t table_options;

ROCKS_CALL(options *, options_create, (void), ())
ROCKS_CALL(void, options_destroy, (options * o), (o))
ROCKS_CALL(void, options_set_create_if_missing, (options * o, unsigned char v), (o, v))
ROCKS_CALL(void, options_set_paranoid_checks, (options * o, unsigned char v), (o, v))
ROCKS_CALL(void, options_set_info_log_level, (options * o, int v), (o, v))
ROCKS_CALL(void, options_set_max_background_jobs, (options * o, int v), (o, v))
ROCKS_CALL(void, options_set_write_buffer_size, (options * o, size_t v), (o, v))
ROCKS_CALL(void, options_set_max_write_buffer_number, (options * o, int v), (o, v))
ROCKS_CALL(void, options_set_target_file_size_base, (options * o, uint64_t v), (o, v))
ROCKS_CALL(void, options_set_max_bytes_for_level_base, (options * o, uint64_t v), (o, v))
ROCKS_CALL(void, options_set_level_compaction_dynamic_level_bytes, (options * o, unsigned char v),
    (o, v))
ROCKS_CALL(void, options_set_compression, (options * o, int v), (o, v))
ROCKS_CALL(void, options_set_bytes_per_sync, (options * o, uint64_t v), (o, v))
ROCKS_CALL(void, options_set_keep_log_file_num, (options * o, size_t v), (o, v))
ROCKS_CALL(void, options_set_block_based_table_factory, (options * o, table_options *t), (o, t))

ROCKS_CALL(table_options *, block_based_options_create, (void), ())
ROCKS_CALL(void, block_based_options_destroy, (table_options * t), (t))
ROCKS_CALL(void, block_based_options_set_block_cache, (table_options * t, rocksdb_cache_t *c),
    (t, c))
ROCKS_CALL(void, block_based_options_set_filter_policy,
    (table_options * t, rocksdb_filterpolicy_t *policy), (t, policy))
ROCKS_CALL(void, block_based_options_set_cache_index_and_filter_blocks,
    (table_options * t, unsigned char v), (t, v))
ROCKS_CALL(void, block_based_options_set_cache_index_and_filter_blocks_with_high_priority,
    (table_options * t, unsigned char v), (t, v))
ROCKS_CALL(void, block_based_options_set_partition_filters, (table_options * t, unsigned char v),
    (t, v))
ROCKS_CALL(void, block_based_options_set_index_type, (table_options * t, int v), (t, v))
ROCKS_CALL(void, block_based_options_set_format_version, (table_options * t, int v), (t, v))
ROCKS_CALL(rocksdb_filterpolicy_t *, filterpolicy_create_bloom_full, (double bits), (bits))
ROCKS_CALL(rocksdb_cache_t *, cache_create_lru, (size_t n), (n))
ROCKS_CALL(void, cache_set_capacity, (rocksdb_cache_t * c, size_t n), (c, n))
ROCKS_CALL(void, cache_destroy, (rocksdb_cache_t * c), (c))

ROCKS_CALL(rocksdb_t *, open_column_families,
    (const options *o, const char *name, int n, const char *const *names,
        const options *const *each, rocksdb_column_family_handle_t **out, char **why),
    (o, name, n, names, each, out, why))
ROCKS_CALL(void, close, (rocksdb_t * db), (db))
ROCKS_CALL(void, free, (void *p), (p))
ROCKS_CALL(int, property_int, (rocksdb_t * db, const char *name, uint64_t *out), (db, name, out))
ROCKS_CALL(void, column_family_handle_destroy, (rocksdb_column_family_handle_t * h), (h))

ROCKS_CALL(rocksdb_readoptions_t *, readoptions_create, (void), ())
ROCKS_CALL(void, readoptions_destroy, (rocksdb_readoptions_t * o), (o))
ROCKS_CALL(void, readoptions_set_snapshot, (rocksdb_readoptions_t * o, const rocksdb_snapshot_t *s),
    (o, s))
ROCKS_CALL(void, readoptions_set_fill_cache, (rocksdb_readoptions_t * o, unsigned char v), (o, v))
ROCKS_CALL(void, readoptions_set_readahead_size, (rocksdb_readoptions_t * o, size_t n), (o, n))
ROCKS_CALL(void, readoptions_set_iterate_upper_bound,
    (rocksdb_readoptions_t * o, const char *key, size_t n), (o, key, n))
ROCKS_CALL(rocksdb_writeoptions_t *, writeoptions_create, (void), ())
ROCKS_CALL(void, writeoptions_destroy, (rocksdb_writeoptions_t * o), (o))
ROCKS_CALL(void, writeoptions_disable_WAL, (rocksdb_writeoptions_t * o, int v), (o, v))

ROCKS_CALL(void, batched_multi_get_cf,
    (rocksdb_t * db, const rocksdb_readoptions_t *o, rocksdb_column_family_handle_t *h, size_t n,
        const char *const *keys, const size_t *sizes, rocksdb_pinnableslice_t **values, char **errs,
        const bool sorted),
    (db, o, h, n, keys, sizes, values, errs, sorted))
ROCKS_CALL(const char *, pinnableslice_value, (const rocksdb_pinnableslice_t *v, size_t *n), (v, n))
ROCKS_CALL(void, pinnableslice_destroy, (rocksdb_pinnableslice_t * v), (v))

ROCKS_CALL(rocksdb_writebatch_t *, writebatch_create, (void), ())
ROCKS_CALL(void, writebatch_destroy, (rocksdb_writebatch_t * b), (b))
ROCKS_CALL(void, writebatch_put,
    (rocksdb_writebatch_t * b, const char *key, size_t nkey, const char *value, size_t n),
    (b, key, nkey, value, n))
ROCKS_CALL(void, writebatch_delete, (rocksdb_writebatch_t * b, const char *key, size_t nkey),
    (b, key, nkey))
ROCKS_CALL(void, writebatch_delete_range,
    (rocksdb_writebatch_t * b, const char *from, size_t nfrom, const char *to, size_t nto),
    (b, from, nfrom, to, nto))
ROCKS_CALL(const char *, writebatch_data, (rocksdb_writebatch_t * b, size_t *n), (b, n))
ROCKS_CALL(int, writebatch_count, (rocksdb_writebatch_t * b), (b))
ROCKS_CALL(void, write,
    (rocksdb_t * db, const rocksdb_writeoptions_t *o, rocksdb_writebatch_t *b, char **why),
    (db, o, b, why))
ROCKS_CALL(void, delete_file_in_range,
    (rocksdb_t * db, const char *from, size_t nfrom, const char *to, size_t nto, char **why),
    (db, from, nfrom, to, nto, why))

ROCKS_CALL(const rocksdb_snapshot_t *, create_snapshot, (rocksdb_t * db), (db))
ROCKS_CALL(void, release_snapshot, (rocksdb_t * db, const rocksdb_snapshot_t *s), (db, s))
ROCKS_CALL(rocksdb_iterator_t *, create_iterator, (rocksdb_t * db, const rocksdb_readoptions_t *o),
    (db, o))
ROCKS_CALL(void, iter_destroy, (rocksdb_iterator_t * i), (i))
ROCKS_CALL(unsigned char, iter_valid, (const rocksdb_iterator_t *i), (i))
ROCKS_CALL(void, iter_seek, (rocksdb_iterator_t * i, const char *key, size_t n), (i, key, n))
ROCKS_CALL(void, iter_next, (rocksdb_iterator_t * i), (i))
ROCKS_CALL(const char *, iter_key, (const rocksdb_iterator_t *i, size_t *n), (i, n))
ROCKS_CALL(const char *, iter_value, (const rocksdb_iterator_t *i, size_t *n), (i, n))
ROCKS_CALL(void, iter_get_error, (const rocksdb_iterator_t *i, char **why), (i, why))
