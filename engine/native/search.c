/* A search: look-up tables, scan, candidates, exact comparison. */
#include "kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_FACTOR 4 /* candidates that a reservoir holds for each that it keeps */
#define MIN_CAPACITY 256
#define AHEAD 12          /* rows whose memory is asked for before they are compared */
#define CACHE_LINE 64
#define COPIES 2          /* lists that hold each row */

/* ---- memory ----------------------------------------------------------------------------------------------------- */

struct scratch *scratch_new(void) { return calloc(1, sizeof(struct scratch)); }

void scratch_free(struct scratch *scratch) {
    if (scratch == NULL)
        return;
    free(scratch->floats);
    free(scratch->tables);
    free(scratch->candidates);
    free(scratch);
}

/* Memory for `count` elements in place of `memory`, which has room for `held` and whose content is lost. */
static void *make_room(void *memory, size_t *held, size_t count, size_t size) {
    if (count <= *held)
        return memory;
    free(memory);
    *held = 0;
    if (count > SIZE_MAX / 2 / size)
        return NULL;
    memory = aligned_alloc(CACHE_LINE, (count * size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    *held = memory == NULL ? 0 : count;
    return memory;
}

static bool has_room(struct scratch *scratch, size_t floats, size_t table_bytes, size_t capacity) {
    scratch->floats = make_room(scratch->floats, &scratch->float_count, floats, sizeof *scratch->floats);
    scratch->tables = make_room(scratch->tables, &scratch->table_bytes, table_bytes, 1);
    scratch->candidates = make_room(scratch->candidates, &scratch->capacity, capacity, sizeof *scratch->candidates);
    return scratch->floats != NULL && scratch->tables != NULL && scratch->candidates != NULL;
}

/* ---- exact comparison ------------------------------------------------------------------------------------------- */

static inline const uint8_t *vector_of(const struct search *search, uint16_t column, int64_t row) {
    return search->columns[column].vectors + (size_t)row * search->row_bytes;
}

static inline void prefetch(const uint8_t *vector, size_t bytes) {
    for (size_t i = 0; i < bytes; i += CACHE_LINE)
        __builtin_prefetch(vector + i);
}

static inline double score_of(const struct search *search, uint16_t column, int64_t row, const float *query) {
    const uint8_t *vector = vector_of(search, column, row);
    return metric_score(search->metric, search->compare(query, vector, search->dimensions));
}

/* best_add, for the many hits that are worse than all k. */
static inline void add(struct best *best, double score, int64_t row, uint16_t column) {
    if (best->size < best->k || (best->k > 0 && score >= best->hits[0].score))
        best_add(best, (struct hit){score, (uint32_t)row, column});
}

#define ROWS_AT_ONCE 64

/* The next allowed rows of a column from `first` on, ROWS_AT_ONCE at most; `first` becomes the row behind them. */
static size_t next_rows(const uint8_t *allowed, int64_t rows, int64_t *first, int64_t *next) {
    size_t count = 0;
    int64_t row = *first;
    for (; row < rows && count < ROWS_AT_ONCE; row++) {
        next[count] = row;
        count += allowed == NULL || bit_at(allowed, row);
    }
    *first = row;
    return count;
}

void search_exact(const struct search *search, uint16_t column, const uint8_t *allowed, const float *query,
                  struct best *best) {
    int64_t rows[ROWS_AT_ONCE], ahead[ROWS_AT_ONCE], first = 0;
    const int64_t end = search->columns[column].rows;
    size_t count = next_rows(allowed, end, &first, rows);
    while (count > 0) {
        const size_t following = next_rows(allowed, end, &first, ahead);
        for (size_t i = 0; i < count; i++) {
            if (i + AHEAD < count)
                prefetch(vector_of(search, column, rows[i + AHEAD]), search->row_bytes);
            else if (i + AHEAD - count < following)
                prefetch(vector_of(search, column, ahead[i + AHEAD - count]), search->row_bytes);
            add(best, score_of(search, column, rows[i], query), rows[i], column);
        }
        memcpy(rows, ahead, following * sizeof *rows);
        count = following;
    }
}

void score_rows(const struct search *search, uint16_t column, const int64_t *rows, size_t count, const float *query,
                double *scores) {
    for (size_t i = 0; i < count && i < AHEAD; i++)
        prefetch(vector_of(search, column, rows[i]), search->row_bytes);
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            prefetch(vector_of(search, column, rows[i + AHEAD]), search->row_bytes);
        scores[i] = score_of(search, column, rows[i], query);
    }
}

void search_rows(const struct search *search, uint16_t column, const int64_t *rows, size_t count, const float *query,
                 struct best *best) {
    for (size_t i = 0; i < count && i < AHEAD; i++)
        prefetch(vector_of(search, column, rows[i]), search->row_bytes);
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            prefetch(vector_of(search, column, rows[i + AHEAD]), search->row_bytes);
        add(best, score_of(search, column, rows[i], query), rows[i], column);
    }
}

/* Compare candidates; returns the best score among those whose estimate is not above the limit. */
static double compare_candidates(const struct search *search, const struct reservoir *reservoir, int32_t limit,
                                 const float *query, struct best *best) {
    const struct candidate *items = reservoir->items;
    double edge = -INFINITY;
    for (size_t i = 0; i < reservoir->size && i < AHEAD; i++)
        prefetch(vector_of(search, items[i].column, items[i].row), search->row_bytes);
    for (size_t i = 0; i < reservoir->size; i++) {
        if (i + AHEAD < reservoir->size)
            prefetch(vector_of(search, items[i + AHEAD].column, items[i + AHEAD].row), search->row_bytes);
        const double score = score_of(search, items[i].column, items[i].row, query);
        if (items[i].estimate <= limit && score > edge)
            edge = score;
        add(best, score, items[i].row, items[i].column);
    }
    return edge;
}

/* ---- the scan --------------------------------------------------------------------------------------------------- */

static int by_row(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Drop the second copies of rows. */
static void drop_copies(struct reservoir *reservoir) {
    struct candidate *items = reservoir->items;
    qsort(items, reservoir->size, sizeof *items, by_row);
    size_t kept = 0;
    for (size_t i = 0; i < reservoir->size; i++)
        if (kept == 0 || by_row(&items[kept - 1], &items[i]) != 0)
            items[kept++] = items[i];
    reservoir->size = kept;
}

static int32_t least_estimate(const struct reservoir *reservoir) {
    int32_t least = MAX_ESTIMATE;
    for (size_t i = 0; i < reservoir->size; i++)
        least = reservoir->items[i].estimate < least ? reservoir->items[i].estimate : least;
    return least;
}

/* Prepare the tables and the reservoir of a request. */
static bool start(const struct search *search, const struct scan *scan, size_t count, struct request *request,
                  struct tables *tables, struct reservoir *reservoir) {
    struct scratch *scratch = request->scratch;
    const size_t capacity = UNIT_ROWS + (count < MIN_CAPACITY ? MIN_CAPACITY : count) * CAPACITY_FACTOR;
    const size_t table_bytes = codebook_pairs(&scan->codebook) * PAIR_BYTES;
    if (!has_room(scratch, table_floats(&scan->codebook), table_bytes, capacity))
        return false;
    tables->values = scratch->tables;
    fill_tables(search->kernel, &scan->codebook, request->query, scratch->floats, tables);
    reservoir->items = scratch->candidates;
    reservoir->capacity = capacity;
    reservoir->count = count;
    reservoir->bins = scratch->bins;
    reservoir_start(reservoir, tables->largest);
    return true;
}

/* Compare the candidates of a request. */
static enum outcome finish(const struct search *search, const struct choice *choice, struct reservoir *reservoir,
                           struct request *request) {
    reservoir_finish(reservoir);
    if (choice->is_probe) {
        drop_copies(reservoir);
        if (reservoir->size < (choice->count < choice->total ? choice->count : choice->total))
            return FOUND_TOO_FEW;
        reservoir_keep(reservoir, choice->count);
    } else if (reservoir->size > CAPACITY_FACTOR * choice->count) { /* rows with nearly the same estimate */
        reservoir_keep(reservoir, choice->count);
    }
    /* Rows with the least estimate may have been left out, or were in lists that were not probed. */
    const bool is_whole = choice->is_probe ? reservoir->size == choice->total : reservoir->cut < 0;
    const int32_t limit = is_whole ? -1 : least_estimate(reservoir);
    request->edge = fmax(request->edge, compare_candidates(search, reservoir, limit, request->query, &request->best));
    return FOUND;
}

enum outcome search_scan(const struct search *search, const struct scan *scan, struct choice choice,
                         struct request *requests, size_t count) {
    struct tables tables[MAX_BATCH];
    struct reservoir reservoirs[MAX_BATCH];
    enum outcome outcome = FOUND;
    for (size_t first = 0; first < count && outcome == FOUND; first += MAX_BATCH) {
        const size_t batch = count - first < MAX_BATCH ? count - first : MAX_BATCH;
        for (size_t i = 0; i < batch; i++)
            if (!start(search, scan, choice.count * (choice.is_probe ? COPIES : 1), &requests[first + i], &tables[i],
                       &reservoirs[i]))
                return OUT_OF_MEMORY;
        for (size_t i = 0; i < choice.list_count; i++) {
            struct list list = scan->lists[choice.lists[i]];
            list.allowed = choice.allowed[list.column];
            if (batch == 1)
                search->kernel->scan(&list, scan->block_rows, &tables[0], &reservoirs[0]);
            else
                search->kernel->scan_batch(&list, scan->block_rows, batch, tables, reservoirs);
        }
        for (size_t i = 0; i < batch && outcome == FOUND; i++)
            outcome = finish(search, &choice, &reservoirs[i], &requests[first + i]);
    }
    return outcome;
}
