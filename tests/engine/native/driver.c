/* Random searches through the C interface of the kernel, to be built with sanitizers; no Python.
 *
 *   driver SECONDS SEED   makes cases of random bytes until the time is over
 *   driver FILE ...       repeats the cases in files
 *
 * A case is a string of bytes: sizes, lists, masks, vectors, codewords. It is run on every instruction set that the
 * processor has. Each buffer has exactly the bytes that the kernel may read, so that a sanitizer sees one byte more.
 * What is found is compared with what plain loops find. With -DLIBFUZZER the cases come from libFuzzer.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel.h"

#define CASE_BYTES 4096
#define MAX_CASE_COLUMNS 3
#define MAX_CASE_LISTS 6

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "driver: line %d does not hold: %s\n", __LINE__, #condition);                             \
            abort();                                                                                                  \
        }                                                                                                             \
    } while (0)

/* ---- a case as bytes ---------------------------------------------------------------------------------------------- */

/* Bytes of the case, then those of a generator that the case itself has seeded. */
struct source {
    const uint8_t *bytes;
    size_t left;
    uint64_t state;
};

static uint64_t random_bits(uint64_t *state) { /* splitmix64 (Steele, Lea and Flood, 2014) */
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint8_t next_byte(struct source *source) {
    if (source->left == 0)
        return (uint8_t)(random_bits(&source->state) >> 24);
    source->left--;
    return *source->bytes++;
}

/* A number below `limit`. */
static size_t below(struct source *source, size_t limit) {
    uint32_t number = 0;
    for (int i = 0; i < 3; i++)
        number = number << 8 | next_byte(source);
    return limit ? number % limit : 0;
}

/* Memory of exactly that many bytes. */
static void *exactly(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    CHECK(memory != NULL);
    return memory;
}

static void *random_bytes(struct source *source, size_t bytes) {
    uint8_t *memory = exactly(bytes);
    for (size_t i = 0; i < bytes; i++)
        memory[i] = next_byte(source);
    return memory;
}

enum kind { SMALL, WHOLE, ALIKE, LARGE, ANY_BITS, KINDS };

static float random_float(struct source *source, enum kind kind) {
    float value;
    const uint32_t bits = (uint32_t)below(source, 1 << 24);
    switch (kind) {
    case SMALL:
        return (float)bits / 0x1p23f - 1.0f;
    case WHOLE:
        return (float)(bits % 7) - 3.0f;
    case ALIKE:
        return 0.5f;
    case LARGE:
        return ((float)bits / 0x1p23f - 1.0f) * 3e38f;
    default:
        memcpy(&value, (uint32_t[]){bits << 8 ^ bits}, sizeof value);
        return value;
    }
}

static float *random_floats(struct source *source, size_t count, bool is_finite) {
    const enum kind kind = (enum kind)below(source, KINDS);
    float *values = exactly(count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = random_float(source, kind);
        if (is_finite && !isfinite(values[i]))
            values[i] = 0;
    }
    return values;
}

/* ---- columns, codes and a query ----------------------------------------------------------------------------------- */

struct subject {
    struct search search;
    struct column columns[MAX_CASE_COLUMNS];
    uint8_t *allowed[MAX_CASE_COLUMNS]; /* NULL: all rows */
    size_t column_count;
    struct scan scan;
    struct list lists[MAX_CASE_LISTS];
    float *queries; /* of a batch, one after the other */
    size_t query_count;
};

static const float *query_of(const struct subject *subject, size_t number) {
    return subject->queries + number * subject->search.dimensions;
}

static void make_column(struct source *source, struct subject *subject, struct column *column) {
    const size_t rows = below(source, 8) ? below(source, 400) : below(source, 4), length = below(source, 300);
    column->rows = (int64_t)rows;
    column->vectors = random_bytes(source, rows * subject->search.row_bytes);
    if (below(source, 2)) { /* a few rows that are all alike */
        for (size_t row = 1; row < rows; row++)
            if (next_byte(source) < 100)
                memcpy((uint8_t *)column->vectors + row * subject->search.row_bytes, column->vectors,
                       subject->search.row_bytes);
    }
    column->batch_rows = (int64_t)(1 + below(source, 200));
    column->id_batches = below(source, 5);
    struct id_batch *batches = exactly(column->id_batches * sizeof *batches);
    for (size_t i = 0; i < column->id_batches; i++) {
        const size_t count = below(source, (size_t)column->batch_rows + 1);
        int64_t *offsets = exactly((count + 1) * sizeof *offsets);
        int64_t end = 0;
        for (size_t j = 0; j <= count; j++) {
            offsets[j] = end;
            end += (int64_t)below(source, 3);
            if (next_byte(source) == 0) /* damaged */
                offsets[j] = (int64_t)random_bits(&source->state);
        }
        batches[i] = (struct id_batch){offsets, random_bytes(source, length), (int64_t)count, (int64_t)length};
    }
    column->ids = batches;
}

static void make_codebook(struct source *source, struct codebook *codebook, size_t dimensions) {
    const size_t count = 1 + below(source, below(source, 4) ? 20 : 100);
    const size_t d = (dimensions + count - 1) / count + (below(source, 4) == 0);
    codebook->sub_quantizers = count;
    codebook->sub_dimensions = d;
    codebook->dimensions = dimensions;
    codebook->is_l2 = below(source, 2) != 0;
    codebook->codewords = random_floats(source, count * d * CODEWORDS, true);
    float *biases = random_floats(source, count * CODEWORDS, true);
    if (below(source, 2))
        memset(biases, 0, count * CODEWORDS * sizeof *biases);
    codebook->biases = biases;
    codebook->rotation = NULL;
    if (below(source, 3) == 0) { /* of small numbers, or of any bits */
        uint16_t *rotation = random_bytes(source, count * d * dimensions * sizeof *rotation);
        const uint16_t kept = below(source, 4) ? 0xbfff : 0xffff;
        for (size_t i = 0; i < count * d * dimensions; i++)
            rotation[i] &= kept;
        codebook->rotation = rotation;
    }
}

static void make_list(struct source *source, const struct subject *subject, struct list *list) {
    list->column = (uint16_t)below(source, subject->column_count);
    const size_t rows = (size_t)subject->columns[list->column].rows;
    const bool has_rows = rows > 0 && below(source, 2);
    const size_t first = has_rows ? 0 : below(source, rows + 1), size = below(source, has_rows ? 300 : rows - first + 1);
    const size_t blocks = (size + subject->scan.block_rows - 1) / subject->scan.block_rows;
    list->size = (int64_t)size;
    list->first_row = (int64_t)first;
    list->codes = random_bytes(source, blocks * subject->scan.block_rows * codebook_pairs(&subject->scan.codebook));
    if (below(source, 3) == 0) /* all estimates are equal */
        memset((uint8_t *)list->codes, 0x33, blocks * subject->scan.block_rows * codebook_pairs(&subject->scan.codebook));
    int32_t *numbers = has_rows ? exactly(size * sizeof *numbers) : NULL;
    for (size_t i = 0; has_rows && i < size; i++)
        numbers[i] = (int32_t)below(source, rows);
    list->rows = numbers;
}

static void make_query(struct source *source, const struct subject *subject, float *query) {
    const size_t d = subject->search.dimensions;
    const bool is_unit = subject->search.metric == METRIC_COSINE || below(source, 2);
    float *vector = random_floats(source, d, false);
    double *wide = exactly(d * sizeof *wide);
    for (size_t i = 0; i < d; i++)
        wide[i] = vector[i];
    const bool is_query =
        below(source, 2) ? encode_f32(vector, d, is_unit, query) : encode_f64(wide, d, is_unit, query);
    for (size_t i = 0; i < d; i++) {
        CHECK(!is_query || isfinite(query[i]));
        query[i] = is_query ? query[i] : (float)(i % 5) - 2.0f;
    }
    free(vector);
    free(wide);
}

static void make_subject(struct source *source, struct subject *subject) {
    static const size_t block_sizes[] = {32, 64, 128};
    const size_t d = 1 + below(source, below(source, 8) ? 40 : 1100), item = below(source, 2) ? 2 : 4;
    subject->search.metric = (enum metric)below(source, 4);
    subject->search.dimensions = d;
    subject->search.row_bytes = d * item;
    subject->search.columns = subject->columns;
    subject->column_count = 1 + below(source, MAX_CASE_COLUMNS);
    for (size_t i = 0; i < subject->column_count; i++) {
        make_column(source, subject, &subject->columns[i]);
        const size_t bytes = ((size_t)subject->columns[i].rows + 7) / 8;
        subject->allowed[i] = below(source, 2) ? random_bytes(source, bytes) : NULL;
        if (subject->allowed[i] != NULL && below(source, 3) == 0)
            memset(subject->allowed[i], 0, bytes);
    }
    make_codebook(source, &subject->scan.codebook, d);
    subject->scan.block_rows = block_sizes[below(source, 3)];
    subject->scan.lists = subject->lists;
    subject->scan.list_count = below(source, MAX_CASE_LISTS + 1);
    for (size_t i = 0; i < subject->scan.list_count; i++)
        make_list(source, subject, &subject->lists[i]);
    subject->query_count = below(source, 3) ? 1 : 1 + below(source, 2 * MAX_BATCH + 1);
    subject->queries = exactly(subject->query_count * d * sizeof *subject->queries);
    for (size_t i = 0; i < subject->query_count; i++)
        make_query(source, subject, subject->queries + i * d);
}

static void free_subject(struct subject *subject) {
    for (size_t i = 0; i < subject->column_count; i++) {
        const struct column *column = &subject->columns[i];
        for (size_t j = 0; j < column->id_batches; j++) {
            free((void *)column->ids[j].offsets);
            free((void *)column->ids[j].bytes);
        }
        free((void *)column->ids);
        free((void *)column->vectors);
        free(subject->allowed[i]);
    }
    for (size_t i = 0; i < subject->scan.list_count; i++) {
        free((void *)subject->lists[i].codes);
        free((void *)subject->lists[i].rows);
    }
    free((void *)subject->scan.codebook.codewords);
    free((void *)subject->scan.codebook.biases);
    free((void *)subject->scan.codebook.rotation);
    free(subject->queries);
}

/* ---- what plain loops find ---------------------------------------------------------------------------------------- */

/* The estimate of an entry of a list. */
static uint32_t plain_estimate(const struct list *list, size_t block_rows, const struct tables *tables, size_t entry) {
    static const uint8_t place[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    const uint8_t *block = list->codes + entry / block_rows * block_rows * tables->pairs;
    const size_t within = entry % block_rows, row = within % SUB_BLOCK_ROWS;
    uint32_t estimate = 0;
    for (size_t i = 0; i < 2 * tables->pairs; i++) {
        const uint8_t *codes = block + i / 2 * block_rows + within / SUB_BLOCK_ROWS * PAIR_BYTES + i % 2 * 16;
        const uint8_t code = codes[place[row % 16]];
        estimate += tables->values[i * 16 + (row < 16 ? code & 15 : code >> 4)];
    }
    return estimate;
}

static bool is_allowed(const struct subject *subject, const struct list *list, size_t entry, uint32_t *row) {
    *row = (uint32_t)(list->rows != NULL ? list->rows[entry] : list->first_row + (int64_t)entry);
    return subject->allowed[list->column] == NULL || bit_at(subject->allowed[list->column], *row);
}

/* The number of allowed entries with an estimate of at least `least`. */
static size_t count_plainly(const struct subject *subject, const struct tables *tables, uint32_t least) {
    size_t count = 0;
    for (size_t i = 0; i < subject->scan.list_count; i++) {
        const struct list *list = &subject->lists[i];
        uint32_t row;
        for (size_t entry = 0; entry < (size_t)list->size; entry++)
            count += is_allowed(subject, list, entry, &row) &&
                     plain_estimate(list, subject->scan.block_rows, tables, entry) >= least;
    }
    return count;
}

/* Whether an allowed entry has this row and this estimate. */
static bool is_entry(const struct subject *subject, const struct tables *tables, struct candidate candidate) {
    for (size_t i = 0; i < subject->scan.list_count; i++) {
        const struct list *list = &subject->lists[i];
        uint32_t row;
        for (size_t entry = 0; list->column == candidate.column && entry < (size_t)list->size; entry++)
            if (is_allowed(subject, list, entry, &row) && row == candidate.row &&
                plain_estimate(list, subject->scan.block_rows, tables, entry) == candidate.estimate)
                return true;
    }
    return false;
}

static void check_tables(const struct codebook *codebook, const struct tables *tables) {
    int32_t all = 0;
    for (size_t first = 0; first < tables->pairs; first += PAIRS_IN_8_BITS) {
        int32_t sums[2] = {0, 0};
        for (size_t i = 2 * first; i < 2 * tables->pairs && i < 2 * (first + PAIRS_IN_8_BITS); i++) {
            uint8_t most = 0;
            for (size_t word = 0; word < CODEWORDS; word++)
                most = tables->values[i * 16 + word] > most ? tables->values[i * 16 + word] : most;
            CHECK(i < codebook->sub_quantizers || most == 0);
            sums[i & 1] += most;
        }
        CHECK(sums[0] <= 255 && sums[1] <= 255);
        all += sums[0] + sums[1];
    }
    CHECK(all <= tables->largest && tables->largest <= MAX_ESTIMATE);
}

/* ---- one case ----------------------------------------------------------------------------------------------------- */

/* Candidates of all lists: at least `count`, with the largest estimates, and no worse one where a better was left. */
static void check_candidates(const struct subject *subject, const struct tables *tables, struct reservoir *reservoir) {
    reservoir_finish(reservoir);
    const size_t total = count_plainly(subject, tables, 0), count = reservoir->count;
    CHECK(reservoir->size >= (count < total ? count : total) || count == 0);
    CHECK(count > 0 || reservoir->size == 0);
    uint32_t least = MAX_ESTIMATE;
    for (size_t i = 0; i < reservoir->size; i++) {
        least = reservoir->items[i].estimate < least ? reservoir->items[i].estimate : least;
        CHECK(i % 16 || is_entry(subject, tables, reservoir->items[i]));
    }
    size_t above = 0;
    for (size_t i = 0; i < reservoir->size; i++)
        above += reservoir->items[i].estimate > least;
    CHECK(reservoir->size == 0 || above == count_plainly(subject, tables, least + 1));
    CHECK(reservoir->cut >= 0 || count == 0 || reservoir->size == count_plainly(subject, tables, least));
    const size_t keep = reservoir->size / 2;
    const size_t more = reservoir->size % 5;
    if (keep > 0) {
        struct candidate *before = exactly(reservoir->size * sizeof *before);
        const size_t size = reservoir->size;
        memcpy(before, reservoir->items, size * sizeof *before);
        reservoir_keep(reservoir, keep, more);
        CHECK(reservoir->size >= keep && reservoir->size <= keep + more);
        size_t above_cut = 0, kept = 0;
        for (size_t i = 0; i < size; i++)
            above_cut += before[i].estimate > reservoir->cut;
        for (size_t i = 0; i < reservoir->size; i++)
            kept += reservoir->items[i].estimate > reservoir->cut;
        CHECK(kept == above_cut);
        free(before);
    }
}

static void check_scan(const struct kernel *kernel, const struct subject *subject, size_t count, size_t capacity) {
    const struct codebook *codebook = &subject->scan.codebook;
    const size_t queries = subject->query_count < MAX_BATCH ? subject->query_count : MAX_BATCH;
    float *room = exactly(table_floats(codebook) * sizeof *room);
    struct tables tables[MAX_BATCH];
    struct reservoir reservoirs[MAX_BATCH];
    for (size_t i = 0; i < queries; i++) {
        tables[i].values = exactly(codebook_pairs(codebook) * PAIR_BYTES);
        fill_tables(kernel, codebook, query_of(subject, i), room, &tables[i]);
        check_tables(codebook, &tables[i]);
        reservoirs[i] = (struct reservoir){.items = exactly(capacity * sizeof(struct candidate)),
                                           .capacity = capacity,
                                           .count = count,
                                           .bins = exactly(BINS * sizeof(uint32_t))};
        reservoir_start(&reservoirs[i], tables[i].largest);
    }
    for (size_t i = 0; i < subject->scan.list_count; i++) {
        struct list list = subject->lists[i];
        list.allowed = subject->allowed[list.column];
        if (queries == 1)
            kernel->scan(&list, subject->scan.block_rows, tables, reservoirs);
        else
            kernel->scan_batch(&list, subject->scan.block_rows, queries, tables, reservoirs);
    }
    for (size_t i = 0; i < queries; i++) {
        check_candidates(subject, &tables[i], &reservoirs[i]);
        free(reservoirs[i].items);
        free(reservoirs[i].bins);
        free(tables[i].values);
    }
    free(room);
}

static const struct column *sorted_columns;

static int by_score(const void *a, const void *b) {
    const struct hit *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    struct best first = {(struct hit[1]){{0}}, 0, 1, sorted_columns}; /* the order by id is that of best.c */
    best_add(&first, *x);
    best_add(&first, *y);
    const bool is_x = first.hits[0].row == x->row && first.hits[0].column == x->column;
    const bool is_y = first.hits[0].row == y->row && first.hits[0].column == y->column;
    return is_x && is_y ? 0 : is_x ? -1 : 1;
}

/* All rows of all columns compared, against sorting. */
static void check_exact(const struct subject *subject, size_t k) {
    struct hit *every = exactly(MAX_CASE_COLUMNS * 400 * sizeof *every);
    size_t count = 0;
    struct best best = {exactly(k * sizeof(struct hit)), 0, k, subject->columns};
    for (size_t i = 0; i < subject->column_count; i++) {
        const size_t rows = (size_t)subject->columns[i].rows;
        int64_t *numbers = exactly(rows * sizeof *numbers);
        double *scores = exactly(rows * sizeof *scores);
        for (size_t row = 0; row < rows; row++)
            numbers[row] = (int64_t)row;
        score_rows(&subject->search, (uint16_t)i, numbers, rows, subject->queries, scores);
        size_t chosen = 0;
        for (size_t row = 0; row < rows; row++) {
            CHECK(!isnan(scores[row]));
            if (subject->allowed[i] == NULL || bit_at(subject->allowed[i], (int64_t)row)) {
                every[count++] = (struct hit){scores[row], (uint32_t)row, (uint16_t)i};
                numbers[chosen++] = (int64_t)row;
            }
        }
        if (i % 2)
            search_rows(&subject->search, (uint16_t)i, numbers, chosen, subject->queries, &best);
        else
            search_exact(&subject->search, (uint16_t)i, subject->allowed[i], subject->queries, &best);
        free(numbers);
        free(scores);
    }
    best_sort(&best);
    sorted_columns = subject->columns;
    qsort(every, count, sizeof *every, by_score);
    CHECK(best.size == (k < count ? k : count));
    for (size_t i = 0; i < best.size; i++)
        CHECK(best.hits[i].row == every[i].row && best.hits[i].column == every[i].column);
    free(best.hits);
    free(every);
}

static void check_hits(const struct subject *subject, struct best *best) {
    best_sort(best);
    CHECK(best->size <= best->k);
    for (size_t i = 0; i < best->size; i++) {
        const struct hit hit = best->hits[i];
        CHECK(i == 0 || best->hits[i - 1].score >= hit.score);
        CHECK(hit.column < subject->column_count && (int64_t)hit.row < subject->columns[hit.column].rows);
        CHECK(subject->allowed[hit.column] == NULL || bit_at(subject->allowed[hit.column], hit.row));
    }
}

/* Products of random bytes: those of plain loops. */
static void check_products(struct source *source, const struct kernel *kernel) {
    const size_t count = below(source, 10), bytes = BYTES_AT_ONCE * (1 + below(source, 4));
    uint8_t *rows = random_bytes(source, count * bytes);
    int8_t *query = exactly(bytes);
    int32_t *products = exactly(count * sizeof *products);
    for (size_t i = 0; i < bytes; i++)
        query[i] = (int8_t)((int)below(source, 2 * MAX_STEPS + 1) - MAX_STEPS);
    for (size_t i = 0; i < bytes && bytes % 3 == 0; i++) /* the largest sums */
        query[i] = MAX_STEPS;
    kernel->multiply(rows, count, bytes, query, products);
    for (size_t row = 0; row < count; row++) {
        int32_t sum = 0;
        for (size_t i = 0; i < bytes; i++)
            sum += rows[row * bytes + i] * query[i];
        CHECK(products[row] == sum);
    }
    free(rows);
    free(query);
    free(products);
}

/* Products of several queries with blocks of random bytes: those of plain loops. */
static void check_scaled_products(struct source *source, const struct kernel *kernel) {
    const size_t blocks = 2 * (1 + below(source, 3)), bytes = BYTES_AT_ONCE * (1 + below(source, 3));
    const size_t count = QUERIES_TOGETHER * (1 + below(source, 2)), all = blocks * BLOCK_CENTROIDS;
    uint8_t *codes = random_bytes(source, all * bytes);
    int8_t *queries = exactly(count * bytes);
    struct scaled *scaled = exactly(count * sizeof *scaled);
    float *minuends = exactly(all * sizeof *minuends), *differences = exactly(count * all * sizeof *differences);
    const bool is_largest = below(source, 3) == 0;
    for (size_t i = 0; i < count * bytes; i++)
        queries[i] = is_largest ? MAX_STEPS : (int8_t)((int)below(source, 2 * MAX_STEPS + 1) - MAX_STEPS);
    for (size_t i = 0; i < all; i++)
        minuends[i] = i + 1 == all ? INFINITY : random_float(source, SMALL);
    for (size_t query = 0; query < count; query++) {
        int32_t zero = 0;
        for (size_t i = 0; i < bytes; i++)
            zero += ZERO_STEPS * queries[query * bytes + i];
        scaled[query] = (struct scaled){random_float(source, SMALL), zero, random_float(source, SMALL)};
    }
    kernel->subtract_products(codes, blocks, bytes, queries, scaled, count, minuends, differences);
    for (size_t query = 0; query < count; query++)
        for (size_t number = 0; number < all; number++) {
            int32_t sum = 0;
            for (size_t i = 0; i < bytes; i++)
                sum += queries[query * bytes + i] * codes[number / BLOCK_CENTROIDS * BLOCK_CENTROIDS * bytes +
                                                          i / BYTES_TOGETHER * BYTES_TOGETHER * BLOCK_CENTROIDS +
                                                          number % BLOCK_CENTROIDS * BYTES_TOGETHER + i % BYTES_TOGETHER];
            const float product = scaled[query].step * (float)(sum - scaled[query].zero);
            CHECK(differences[query * all + number] == minuends[number] - (product + scaled[query].shift));
        }
    free(codes);
    free(queries);
    free(scaled);
    free(minuends);
    free(differences);
}

/* The lists of rows: the nearest centroid by exact distances, and another; of rows beyond a float, any. */
static void check_lists(struct source *source, const struct kernel *kernel) {
    const size_t count = 1 + below(source, 100), d = 1 + below(source, 80), rows = below(source, 40);
    struct lists lists = {.count = count, .blocks = 2 * ((count + 2 * BLOCK_CENTROIDS - 1) / (2 * BLOCK_CENTROIDS)),
                          .dimensions = d, .bytes = (d + BYTES_AT_ONCE - 1) / BYTES_AT_ONCE * BYTES_AT_ONCE};
    const size_t padded = lists.blocks * BLOCK_CENTROIDS;
    float *centroids = exactly(count * d * sizeof *centroids), *mean = exactly(d * sizeof *mean);
    float *half_squares = exactly(padded * sizeof *half_squares), *products = exactly(count * count * sizeof *products);
    uint8_t *codes = exactly(padded * lists.bytes);
    memset(codes, ZERO_STEPS, padded * lists.bytes);
    memset(mean, 0, d * sizeof *mean);
    lists.step = 1.0F / (ZERO_STEPS - 1);
    for (size_t i = 0; i < count * d; i++)
        centroids[i] = random_float(source, SMALL);
    for (size_t i = 0; i < padded; i++) {
        half_squares[i] = i < count ? kernel->dot_f32(centroids + i * d, centroids + i * d, d) / 2 : INFINITY;
        lists.spread += i < count ? 2 * half_squares[i] / (float)count : 0;
        for (size_t j = 0; j < d && i < count; j++)
            codes[i / BLOCK_CENTROIDS * BLOCK_CENTROIDS * lists.bytes + j / BYTES_TOGETHER * BYTES_TOGETHER * BLOCK_CENTROIDS +
                  i % BLOCK_CENTROIDS * BYTES_TOGETHER + j % BYTES_TOGETHER] =
                (uint8_t)(lrintf(centroids[i * d + j] / lists.step) + ZERO_STEPS);
    }
    for (size_t i = 0; i < count * count; i++)
        products[i] = kernel->dot_f32(centroids + i / count * d, centroids + i % count * d, d) - half_squares[i % count];
    lists.centroids = centroids, lists.mean = mean, lists.half_squares = half_squares, lists.products = products;
    lists.codes = codes;
    float *values = random_floats(source, rows * d, false);
    int64_t *nearest = exactly(rows * sizeof *nearest), *second = exactly(rows * sizeof *second);
    CHECK(choose_lists(kernel, &lists, values, rows, nearest, below(source, 4) ? second : NULL));
    CHECK(choose_lists(kernel, &lists, values, rows, nearest, second));
    for (size_t row = 0; row < rows; row++) {
        CHECK(nearest[row] >= 0 && (size_t)nearest[row] < count && second[row] >= 0 && (size_t)second[row] < count);
        const float *own = values + row * d, square = kernel->dot_f32(own, own, d);
        if (!(square < 1e6F))
            continue;
        CHECK(count == 1 || second[row] != nearest[row]);
        float least = INFINITY, found = 0;
        for (size_t i = 0; i < count; i++) {
            const float distance = half_squares[i] - kernel->dot_f32(own, centroids + i * d, d);
            least = distance < least ? distance : least;
            found = i == (size_t)nearest[row] ? distance : found;
        }
        CHECK(found <= least + 0.02F * (1 + sqrtf(square))); /* six deviations are no bound */
    }
    free(centroids);
    free(mean);
    free(half_squares);
    free(products);
    free(codes);
    free(values);
    free(nearest);
    free(second);
}

/* A probe of random centroids, whose buffers have exactly their bytes. */
struct probing {
    struct probe probe;
    struct centroids centroids;
    void *memory[8];
};

static int64_t *random_counts(struct source *source, size_t count, size_t limit) {
    int64_t *counts = exactly(count * sizeof *counts);
    for (size_t i = 0; i < count; i++)
        counts[i] = (int64_t)below(source, limit);
    return counts;
}

static void random_probe(struct source *source, const struct subject *subject, struct probing *probing) {
    const struct codebook *codebook = &subject->scan.codebook;
    const size_t count = 1 + below(source, 9), each = 1 + below(source, 2), d = codebook->sub_quantizers * codebook->sub_dimensions;
    const size_t lists = subject->scan.list_count, bytes = (d + BYTES_AT_ONCE - 1) / BYTES_AT_ONCE * BYTES_AT_ONCE;
    float *mean = exactly(d * sizeof *mean), *squares = exactly(count * sizeof *squares);
    for (size_t i = 0; i < d; i++)
        mean[i] = random_float(source, SMALL);
    for (size_t i = 0; i < count; i++)
        squares[i] = fabsf(random_float(source, SMALL));
    uint8_t *codes = random_bytes(source, count * bytes);
    const size_t others = lists ? below(source, 3) : 0;
    int64_t *of_each = random_counts(source, count * each, lists), *other_lists = random_counts(source, others, lists);
    int64_t *entries = random_counts(source, count, 200), *rows = random_counts(source, count, 9);
    int64_t *allowed = random_counts(source, count, 9);
    const bool is_filtered = below(source, 3) == 0;
    probing->centroids = (struct centroids){codes, mean, squares, count, d, bytes, fabsf(random_float(source, SMALL)),
                                            below(source, 2) != 0, below(source, 2) != 0};
    probing->probe = (struct probe){&probing->centroids, of_each, each, entries, is_filtered ? rows : NULL,
                                    is_filtered ? allowed : NULL, 0.5, other_lists, others, (int64_t)below(source, 900)};
    void *memory[8] = {mean, squares, codes, of_each, other_lists, entries, rows, allowed};
    memcpy(probing->memory, memory, sizeof memory);
}

static void free_probe(struct probing *probing) {
    for (size_t i = 0; i < 8; i++)
        free(probing->memory[i]);
}

/* All queries in one search, and each alone: the same hits. */
static void check_search(struct source *source, const struct subject *subject, struct scratch *scratches[MAX_BATCH],
                         size_t k, size_t count) {
    int64_t lists[MAX_CASE_LISTS];
    size_t chosen = 0, entries = 0;
    for (size_t i = 0; i < subject->scan.list_count; i++)
        if (below(source, 4)) {
            lists[chosen++] = (int64_t)i;
            entries += (size_t)subject->lists[i].size;
        }
    const uint8_t *allowed[MAX_CASE_COLUMNS];
    for (size_t i = 0; i < subject->column_count; i++)
        allowed[i] = subject->allowed[i];
    struct probing probing;
    random_probe(source, subject, &probing);
    struct choice choice = {lists, chosen, allowed, count, below(source, entries + 2), NULL, below(source, 9), 0};
    if (below(source, 2) && subject->scan.list_count > 0)
        choice.probe = &probing.probe;
    if (below(source, 2))
        choice.gap = fabsf(random_float(source, below(source, 8) ? SMALL : LARGE));
    choice.count = choice.total < choice.count ? choice.total : choice.count;
    const size_t queries = subject->query_count;
    struct request *requests = exactly(queries * sizeof *requests);
    for (size_t i = 0; i < queries; i++)
        requests[i] = (struct request){query_of(subject, i), scratches[i % MAX_BATCH],
                                       {exactly(k * sizeof(struct hit)), 0, k, subject->columns}, -INFINITY};
    const enum outcome outcome = search_scan(&subject->search, &subject->scan, choice, requests, queries);
    CHECK(outcome == FOUND || (outcome == FOUND_TOO_FEW && choice.probe != NULL));
    bool is_short = false;
    for (size_t i = 0; i < queries; i++) {
        struct request alone = {query_of(subject, i), scratches[0],
                                {exactly(k * sizeof(struct hit)), 0, k, subject->columns}, -INFINITY};
        is_short |= search_scan(&subject->search, &subject->scan, choice, &alone, 1) == FOUND_TOO_FEW;
        check_hits(subject, &requests[i].best);
        check_hits(subject, &alone.best);
        CHECK(!isnan(requests[i].edge));
        if (outcome == FOUND) {
            CHECK(alone.best.size == requests[i].best.size && alone.edge <= requests[i].edge);
            for (size_t j = 0; j < alone.best.size; j++)
                CHECK(alone.best.hits[j].row == requests[i].best.hits[j].row &&
                      alone.best.hits[j].column == requests[i].best.hits[j].column);
        }
        free(alone.best.hits);
        free(requests[i].best.hits);
    }
    CHECK(is_short == (outcome == FOUND_TOO_FEW));
    free(requests);
    free_probe(&probing);
}

/* ---- words --------------------------------------------------------------------------------------------------------- */

#define MAX_CASE_TERMS 9

struct text_case {
    struct lexicon lexicons[MAX_CASE_COLUMNS];
    struct word_query query;
    double *sums[MAX_CASE_COLUMNS]; /* of all rows, by plain loops */
    const uint8_t *allowed[MAX_CASE_COLUMNS];
    bool is_damaged;
};

/* A lexicon of the rows of a column; at times with terms and rows that do not exist. */
static void make_lexicon(struct source *source, const struct column *column, struct lexicon *lexicon, bool is_damaged) {
    const size_t chunks = (size_t)column->rows, terms = below(source, MAX_CASE_TERMS);
    int64_t *starts = exactly((terms + 1) * sizeof *starts);
    uint32_t *rows = exactly(terms * chunks * sizeof *rows);
    uint16_t *counts = exactly(terms * chunks * sizeof *counts);
    size_t count = 0;
    starts[0] = 0;
    for (size_t term = 0; term < terms; term++) {
        const uint8_t often = next_byte(source);
        for (size_t row = 0; row < chunks; row++)
            if (next_byte(source) <= often) {
                rows[count] = (uint32_t)row;
                counts[count++] = (uint16_t)(below(source, 9) ? 1 + below(source, 3) : below(source, 65536));
            }
        starts[term + 1] = (int64_t)count;
    }
    for (size_t i = 0; is_damaged && i < count; i++)
        if (next_byte(source) < 20)
            rows[i] = (uint32_t)random_bits(&source->state);
    for (size_t i = 0; is_damaged && i <= terms; i++)
        if (next_byte(source) < 20)
            starts[i] = (int64_t)random_bits(&source->state) >> (next_byte(source) % 64);
    lexicon->starts = starts;
    lexicon->terms = (int64_t)terms;
    lexicon->rows = realloc(rows, count * sizeof *rows + (count == 0));
    lexicon->counts = realloc(counts, count * sizeof *counts + (count == 0));
    CHECK(lexicon->rows != NULL && lexicon->counts != NULL);
    lexicon->postings = (int64_t)count;
    lexicon->chunks = (int64_t)chunks;
    float *halves = exactly(chunks * sizeof *halves);
    const size_t blocks = chunks / WORD_BLOCK + 1;
    lexicon->least = exactly(blocks * sizeof *lexicon->least);
    for (size_t i = 0; i < blocks; i++)
        lexicon->least[i] = INFINITY;
    const bool are_alike = below(source, 2) != 0;
    for (size_t row = 0; row < chunks; row++) {
        halves[row] = are_alike ? 1.0f : (float)(1 + below(source, 1000)) / 100;
        float *least = &lexicon->least[row / WORD_BLOCK];
        *least = halves[row] < *least ? halves[row] : *least;
    }
    lexicon->halves = halves;
}

static void sum_plainly(const struct lexicon *lexicon, const struct word_query *query, const int64_t *terms, double *sums) {
    for (int64_t row = 0; row < lexicon->chunks; row++)
        sums[row] = 0;
    for (size_t i = 0; i < query->count; i++) {
        if (terms[i] < 0 || terms[i] >= lexicon->terms)
            continue;
        for (int64_t j = lexicon->starts[terms[i]]; j < lexicon->starts[terms[i] + 1]; j++) {
            const double count = lexicon->counts[j];
            const double share = count / (count + lexicon->halves[lexicon->rows[j]]) + query->delta;
            const double added = query->weights[i] * share;
            sums[lexicon->rows[j]] += added > 0 ? added : 0;
        }
    }
}

static void make_text(struct source *source, const struct subject *subject, struct text_case *text) {
    text->is_damaged = below(source, 3) == 0;
    text->query.count = below(source, MAX_CASE_TERMS);
    text->query.delta = below(source, 2) ? 0.2 : 0;
    double *weights = exactly(text->query.count * sizeof *weights);
    for (size_t i = 0; i < text->query.count; i++)
        weights[i] = below(source, 9) ? (double)(1 + below(source, 900)) / 100 : 1e-300;
    int64_t *terms = exactly(subject->column_count * text->query.count * sizeof *terms);
    for (size_t i = 0; i < subject->column_count * text->query.count; i++)
        terms[i] = (int64_t)below(source, MAX_CASE_TERMS + 2) - 1;
    text->query.terms = terms;
    text->query.weights = weights;
    for (size_t i = 0; i < subject->column_count; i++) {
        make_lexicon(source, &subject->columns[i], &text->lexicons[i], text->is_damaged);
        text->sums[i] = exactly((size_t)text->lexicons[i].chunks * sizeof(double));
        text->allowed[i] = subject->allowed[i];
        if (!text->is_damaged)
            sum_plainly(&text->lexicons[i], &text->query, terms + i * text->query.count, text->sums[i]);
    }
}

static void free_text(struct text_case *text, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free((void *)text->lexicons[i].starts);
        free((void *)text->lexicons[i].rows);
        free((void *)text->lexicons[i].counts);
        free((void *)text->lexicons[i].halves);
        free(text->lexicons[i].least);
        free(text->sums[i]);
    }
    free((void *)text->query.terms);
    free((void *)text->query.weights);
}

struct collector {
    const struct text_case *text;
    size_t count;
    double least;
};

static double collect(void *taker, uint16_t column, int64_t first, const uint32_t *rows, size_t count, const double *sums) {
    struct collector *collector = taker;
    for (size_t i = 0; i < count; i++) {
        const int64_t row = first + rows[i];
        CHECK(row < collector->text->lexicons[column].chunks && sums[rows[i]] > 0);
        CHECK(sums[rows[i]] >= collector->least);
        CHECK(collector->text->allowed[column] == NULL || bit_at(collector->text->allowed[column], row));
        if (!collector->text->is_damaged && sums[rows[i]] > 1e-250)
            CHECK(fabs(sums[rows[i]] - collector->text->sums[column][row]) <= 1e-12 * sums[rows[i]]);
    }
    collector->count += count;
    return collector->least;
}

/* Chunks with words, against plain loops. */
static void check_words(struct source *source, const struct subject *subject, const struct text_case *text) {
    struct collector collector = {text, 0, below(source, 2) ? 0 : (double)below(source, 2000) / 100};
    const struct word_search search = {.lexicons = text->lexicons, .count = subject->column_count, .query = &text->query,
                                       .allowed = text->allowed, .take = collect, .taker = &collector};
    struct word_room *room = word_room_new(text->query.count);
    CHECK(room != NULL);
    search_words(&search, collector.least, room);
    const size_t found = collector.count;
    search_words(&search, collector.least, room); /* the memory is left as it was found */
    CHECK(collector.count == 2 * found);
    word_room_free(room);
    size_t fewest = 0, most = 0;
    for (size_t i = 0; i < subject->column_count; i++)
        for (int64_t row = 0; row < text->lexicons[i].chunks && !text->is_damaged; row++) {
            const bool is_allowed = text->allowed[i] == NULL || bit_at(text->allowed[i], row);
            const double sum = text->sums[i][row];
            fewest += is_allowed && sum > 1e-250 && sum * (1 - 1e-12) >= collector.least;
            most += is_allowed && sum > 0 && sum * (1 + 1e-12) >= collector.least;
        }
    CHECK(text->is_damaged || (fewest <= found && found <= most));
}

static int descending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The best chunks by words and vectors, where all with a cosine above some bound are known, against plain loops. */
static void check_fused(struct source *source, const struct subject *subject, const struct text_case *text, size_t k) {
    const double bound = (double)below(source, 2000) / 1000 - 1;
    struct best best = {exactly(k * sizeof(struct hit)), 0, k, subject->columns};
    const struct fuse fuse = {&subject->search, subject->queries, {(double)below(source, 11) / 10, 3.0}, bound,
                              below(source, 4) ? SIZE_MAX : below(source, 200), &best};
    struct known *known = exactly(2 * MAX_CASE_COLUMNS * 400 * sizeof *known);
    double *every = exactly(MAX_CASE_COLUMNS * 400 * sizeof *every);
    size_t known_count = 0, count = 0;
    bool is_usual = !text->is_damaged;
    for (size_t i = 0; i < subject->column_count; i++)
        for (int64_t row = 0; row < subject->columns[i].rows; row++) {
            double score;
            if (text->allowed[i] != NULL && !bit_at(text->allowed[i], row))
                continue;
            score_rows(&subject->search, (uint16_t)i, &row, 1, subject->queries, &score);
            const double cosine = subject->search.metric == METRIC_EUCLIDEAN ? 1 - score * score / 2 : score;
            is_usual &= fabs(cosine) < 1e9;
            const double sum = text->is_damaged ? 0 : text->sums[i][row], bonus = below(source, 50) ? 0 : 0.25;
            if (cosine > bound || bonus > 0)
                known[known_count++] = (struct known){below(source, 9) ? cosine : NAN, bonus, (uint32_t)row, (uint16_t)i};
            if (cosine > bound && below(source, 9) == 0) /* twice */
                known[known_count++] = (struct known){NAN, 0, (uint32_t)row, (uint16_t)i};
            if (cosine > bound || bonus > 0 || sum > 0)
                every[count++] = fuse.fusion.a * cosine + (1 - fuse.fusion.a) * (sum / (sum + 3.0)) + bonus;
        }
    const struct word_search search = {.lexicons = text->lexicons, .count = subject->column_count, .query = &text->query,
                                       .allowed = text->allowed, .known_count = known_count};
    CHECK(text->is_damaged || count_postings(&search) <= MAX_CASE_TERMS * MAX_CASE_COLUMNS * 400);
    const enum outcome outcome = search_fused(&fuse, &search, known);
    CHECK(outcome == FOUND || (outcome == FOUND_TOO_FEW && fuse.most < SIZE_MAX));
    qsort(every, count, sizeof *every, descending);
    check_hits(subject, &best);
    for (size_t i = 0; is_usual && outcome == FOUND && i < best.size; i++)
        CHECK(fabs(best.hits[i].score - every[i]) <= 1e-9 * fmax(1, fabs(every[i])));
    CHECK(!is_usual || outcome != FOUND || best.size == (k < count ? k : count));
    float *mean = exactly(subject->search.dimensions * sizeof *mean);
    add_feedback(&subject->search, best.hits, best.size, below(source, 12), 40, 0.2, mean);
    free(mean);
    free(known);
    free(every);
    free(best.hits);
}

/* Strings in order, at times with damaged offsets. */
static void check_strings(struct source *source) {
    const size_t count = below(source, 20), length = below(source, 60);
    int64_t *offsets = exactly((count + 1) * sizeof *offsets);
    uint8_t *bytes = random_bytes(source, length), *key = random_bytes(source, 4);
    for (size_t i = 0; i <= count; i++)
        offsets[i] = next_byte(source) < 20 ? (int64_t)random_bits(&source->state) : (int64_t)(i * length / (count + 1));
    const struct dictionary dictionary = {offsets, bytes, (int64_t)count, (int64_t)length};
    bool is_equal;
    const int64_t first = dictionary_first(&dictionary, key, below(source, 5), &is_equal);
    CHECK(first >= 0 && first <= (int64_t)count && (!is_equal || first < (int64_t)count));
    free(offsets);
    free(bytes);
    free(key);
}

static size_t put_text(uint8_t *out, const char *text) {
    const size_t length = strlen(text);
    memcpy(out, text, length);
    return length;
}

/* A text of a few characters, often cut within one: what stands in it stands in it after a sign, too. */
static void check_phrase(struct source *source) {
    static const char *const pieces[] = {"ab", "CD", "a", ".", " ", "_", "-", "........", "\xC3\xA9", "\xE2\x80\x9C",
                                         "\xE4\xB8\x80", "\xF0\x9F\x98\x80", "\xFF", "1"};
    static const char *const phrases[] = {"ab", "ab cd", "a 1 ab", "_ab cd", "ab_", "a"};
    char drawn[200];
    size_t length = 1;
    drawn[0] = '.';
    for (size_t count = below(source, 24); count > 0; count--)
        length += put_text((uint8_t *)drawn + length, pieces[below(source, 14)]);
    length -= below(source, 4) == 0 && length > 1;
    uint8_t *text = exactly(length);
    memcpy(text, drawn, length);
    const char *phrase = phrases[below(source, 6)];
    const enum standing found = find_phrase(text, length, (const uint8_t *)phrase, strlen(phrase));
    uint8_t *inner = exactly(length - 1);
    memcpy(inner, drawn + 1, length - 1);
    CHECK(found == find_phrase(inner, length - 1, (const uint8_t *)phrase, strlen(phrase)));
    CHECK(find_phrase(text, length, NULL, 0) == UNDECIDED);
    free(text);
    free(inner);
}

/* ---- vectors in JSON ---------------------------------------------------------------------------------------------- */

/* One number as JSON may write it. */
static size_t put_number(struct source *source, char *out) {
    size_t size = 0;
    float value;
    switch (below(source, 4)) {
    case 0:
        value = random_float(source, ANY_BITS);
        return (size_t)sprintf(out, below(source, 2) ? "%.9g" : "%.17g", isfinite(value) ? (double)value : 0.0);
    case 1:
        return (size_t)sprintf(out, "%.*f", (int)below(source, 20), (double)random_float(source, SMALL));
    default:
        if (below(source, 2))
            out[size++] = '-';
        for (size_t digits = below(source, 20); digits > 0; digits--)
            out[size++] = (char)('0' + below(source, 10));
        if (below(source, 2))
            out[size++] = '.';
        for (size_t digits = below(source, 20); digits > 0; digits--)
            out[size++] = (char)('0' + (below(source, 3) ? below(source, 10) : 0));
        if (below(source, 3) == 0)
            size += (size_t)sprintf(out + size, "%c%d", below(source, 2) ? 'e' : 'E', (int)below(source, 120) - 60);
        return size;
    }
}

/* A body with a list of numbers, often damaged: what is read must be what strtof reads. */
static void check_read_vector(struct source *source) {
    static const char *const fronts[] = {"{\"v\":[", "{ \"a\" : {\"v\":[1]} , \"v\" : [ ", "{\"a\":\"\\\"\",\"v\":[",
                                         "{\"v\":[1],\"v\":[", "[", "{\"v\":"};
    static const char *const backs[] = {"]}", "],\"b\":[{\"c\":1}]}", " ] , \"b\" : \"}\" } ", "]", ",]}", ""};
    const size_t front = below(source, 6), back = below(source, 6), numbers = below(source, 12);
    const bool is_damaged = below(source, 2);
    uint8_t text[4096];
    size_t size = put_text(text, fronts[front]), starts[12];
    for (size_t i = 0; i < numbers; i++) {
        size += i ? put_text(text + size, below(source, 4) ? "," : " , ") : 0;
        starts[i] = size;
        size += put_number(source, (char *)text + size);
    }
    const bool is_empty = numbers == 0 || (numbers == 1 && size == starts[0]);
    size += put_text(text + size, backs[back]);
    for (size_t i = 0; is_damaged && i < 3; i++)
        text[below(source, size)] = next_byte(source);
    text[size] = 0;
    uint8_t *body = exactly(size);
    memcpy(body, text, size);
    const size_t most = below(source, 14);
    float *values = exactly(most * sizeof *values);
    struct found_vector found;
    if (read_vector(body, size, (const uint8_t *)"v", 1, values, most, &found)) {
        CHECK(found.start < found.end && found.end <= size && found.count <= most);
        CHECK(body[found.start] == '[' && body[found.end - 1] == ']');
        if (!is_damaged && front < 3 && back < 3) {
            CHECK(found.count == (is_empty ? 0 : numbers));
            for (size_t i = 0; i < found.count; i++)
                CHECK(values[i] == strtof((const char *)text + starts[i], NULL));
        }
    }
    free(values);
    free(body);
}

/* ---- cases -------------------------------------------------------------------------------------------------------- */

static void run_case(const uint8_t *bytes, size_t size) {
    static const char *const names[] = {"scalar", "avx2", "avx512", "vnni", "neon"};
    struct source source = {bytes, size, size};
    for (size_t i = 0; i < size && i < 32; i++)
        source.state = source.state * 31 + bytes[i];
    struct subject subject = {0};
    make_subject(&source, &subject);
    struct scratch *scratches[MAX_BATCH];
    for (size_t i = 0; i < MAX_BATCH; i++) {
        scratches[i] = scratch_new();
        CHECK(scratches[i] != NULL);
    }
    for (size_t i = 0; i < 20; i++)
        check_read_vector(&source);
    struct text_case text = {0};
    make_text(&source, &subject, &text);
    check_strings(&source);
    for (size_t i = 0; i < 20; i++)
        check_phrase(&source);
    check_words(&source, &subject, &text);
    const size_t k = below(&source, 8) ? below(&source, 50) : below(&source, 1500);
    const size_t count = below(&source, 8) ? below(&source, 60) : below(&source, 2000);
    const size_t capacity = UNIT_ROWS + (below(&source, 2) || count > 256 ? 4 * (count + 1) : 1024);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct kernel *kernel = kernel_named(names[i]);
        if (kernel == NULL)
            continue;
        subject.search.kernel = kernel;
        subject.search.compare = kernel_compare(kernel, subject.search.metric,
                                                subject.search.row_bytes == 2 * subject.search.dimensions);
        check_products(&source, kernel);
        check_scaled_products(&source, kernel);
        check_lists(&source, kernel);
        check_scan(kernel, &subject, count, capacity);
        check_exact(&subject, k);
        check_fused(&source, &subject, &text, k);
        check_search(&source, &subject, scratches, k, count);
        check_search(&source, &subject, scratches, k, count);
    }
    for (size_t i = 0; i < MAX_BATCH; i++)
        scratch_free(scratches[i]);
    free_text(&text, subject.column_count);
    free_subject(&subject);
}

/* ---- the program -------------------------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    run_case(bytes, size);
    return 0;
}

#ifndef LIBFUZZER
static void run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    uint8_t bytes[CASE_BYTES];
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    run_case(bytes, size);
}

/* Random cases; the last one is in `last-case` when something stops the program. */
static void run_for(double seconds, uint64_t seed) {
    const time_t began = time(NULL);
    uint64_t cases = 0, state = seed;
    while (difftime(time(NULL), began) < seconds) {
        uint8_t bytes[CASE_BYTES];
        const size_t size = 16 + (size_t)(random_bits(&state) % 112);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)(random_bits(&state) >> 56);
        FILE *file = fopen("last-case", "wb");
        CHECK(file != NULL && fwrite(bytes, 1, size, file) == size);
        fclose(file);
        run_case(bytes, size);
        cases++;
    }
    printf("%" PRIu64 " cases\n", cases);
}

int main(int count, char **words) {
    char *end = NULL;
    const double seconds = count == 3 ? strtod(words[1], &end) : 0;
    if (end != NULL && *end == 0 && end != words[1])
        run_for(seconds, strtoull(words[2], NULL, 10));
    else
        for (int i = 1; i < count; i++)
            run_file(words[i]);
    return 0;
}
#endif
