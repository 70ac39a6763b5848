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
    free(scratch->places);
    free(scratch->lists);
    free(scratch->ranking.ranked);
    free(scratch->ranking.scores);
    free(scratch->ranking.query);
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

/* Room to rank the centroids of a probe, and for its lists. */
static bool has_probe_room(struct scratch *scratch, const struct probe *probe) {
    const size_t count = probe->centroids->count, lists = count * probe->lists_each + probe->other_count;
    struct ranking *ranking = &scratch->ranking;
    ranking->ranked = make_room(ranking->ranked, &scratch->ranked_count, 2 * count, sizeof *ranking->ranked);
    ranking->scores = make_room(ranking->scores, &scratch->score_count, count, sizeof *ranking->scores);
    ranking->query = make_room(ranking->query, &scratch->query_bytes, probe->centroids->bytes, 1);
    scratch->lists = make_room(scratch->lists, &scratch->list_count, lists, sizeof *scratch->lists);
    return ranking->ranked != NULL && ranking->scores != NULL && ranking->query != NULL && scratch->lists != NULL;
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

#define MIN_PLACE_BITS 6

/* Drop the second copies of rows, by a hash table of the places of the first ones, with linear probing. */
static bool drop_copies(struct scratch *scratch, struct reservoir *reservoir) {
    struct candidate *items = reservoir->items;
    unsigned bits = MIN_PLACE_BITS;
    while ((size_t)1 << bits < 2 * reservoir->size)
        bits++;
    scratch->places = make_room(scratch->places, &scratch->place_count, (size_t)1 << bits, sizeof *scratch->places);
    if (scratch->places == NULL)
        return false;
    uint32_t *places = scratch->places; /* plus 1; 0: free */
    const size_t mask = ((size_t)1 << bits) - 1;
    memset(places, 0, (mask + 1) * sizeof *places);
    size_t kept = 0;
    for (size_t i = 0; i < reservoir->size; i++) {
        const struct candidate item = items[i];
        size_t at = ((item.row + item.column * UINT32_C(40503)) * UINT32_C(2654435769)) >> (32 - bits);
        while (places[at] && (items[places[at] - 1].row != item.row || items[places[at] - 1].column != item.column))
            at = (at + 1) & mask;
        if (places[at])
            continue;
        items[kept++] = item;
        places[at] = (uint32_t)kept;
    }
    reservoir->size = kept;
    return true;
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
    if (choice->probe != NULL) {
        if (!drop_copies(request->scratch, reservoir))
            return OUT_OF_MEMORY;
        if (reservoir->size < (choice->count < choice->total ? choice->count : choice->total))
            return FOUND_TOO_FEW;
        reservoir_keep(reservoir, choice->count, choice->count);
    } else if (reservoir->size > CAPACITY_FACTOR * choice->count) { /* rows with nearly the same estimate */
        reservoir_keep(reservoir, choice->count, choice->count);
    }
    /* Rows alike have one estimate, and stand in the same lists: of those with an estimate above the cut none is left
     * out. */
    const double edge = compare_candidates(search, reservoir, reservoir->cut, request->query, &request->best);
    request->edge = fmax(request->edge, edge);
    return FOUND;
}

#define FIRST_BYTES 4096 /* of the next list, whose memory is asked for while a list is scanned */

static void scan_lists(const struct search *search, const struct scan *scan, const struct choice *choice,
                       const int64_t *lists, size_t count, size_t batch, const struct tables *tables,
                       struct reservoir *reservoirs) {
    const size_t code_bytes = codebook_pairs(&scan->codebook);
    for (size_t i = 0; i < count; i++) {
        struct list list = scan->lists[lists[i]];
        list.allowed = choice->allowed[list.column];
        if (i + 1 < count) {
            const struct list *next = &scan->lists[lists[i + 1]];
            const size_t bytes = (size_t)next->size * code_bytes;
            prefetch(next->codes, bytes < FIRST_BYTES ? bytes : FIRST_BYTES);
        }
        if (batch == 1)
            search->kernel->scan(&list, scan->block_rows, &tables[0], &reservoirs[0]);
        else
            search->kernel->scan_batch(&list, scan->block_rows, batch, tables, reservoirs);
    }
}

/* ---- the nearest lists ------------------------------------------------------------------------------------------ */

#define MIN_LOCAL_SELECTIVITY 0.7 /* share of its selectivity that a filter must have in the nearest lists */

/* Whether a filter allows much less in the lists of some centroids than elsewhere: then the allowed rows lie far from
 * the query, and the nearest lists say nothing about them. */
static bool is_sparse(const struct probe *probe, const struct ranked *nearest, size_t count) {
    int64_t rows = 0, allowed = 0;
    for (size_t i = 0; i < count; i++) {
        rows += probe->rows[nearest[i].number];
        allowed += probe->allowed[nearest[i].number];
    }
    return (double)allowed < MIN_LOCAL_SELECTIVITY * probe->selectivity * (double)rows;
}

/* Rank the nearest centroids, nearest first: those within the gap, `most` at most, and where their lists hold fewer than
 * `needed` allowed entries, the next ones. Returns their number. */
static size_t rank_nearest(const struct search *search, const struct choice *choice, const struct scratch *scratch,
                           int64_t needed) {
    const struct probe *probe = choice->probe;
    const struct ranking *ranking = &scratch->ranking;
    float unit;
    const float best = score_centroids(search->kernel, probe->centroids, scratch->floats, ranking, &unit);
    const float least = choice->gap > 0 ? best - choice->gap * unit : -INFINITY;
    size_t count = sort_centroids(probe->centroids, ranking, least);
    int64_t entries = 0;
    for (size_t i = 0; i < count && i < choice->nprobe; i++)
        entries += probe->entries[ranking->ranked[i].number];
    if (count < choice->nprobe && entries < needed) {
        const size_t all = sort_centroids(probe->centroids, ranking, -INFINITY);
        while (count < all && entries < needed)
            entries += probe->entries[ranking->ranked[count++].number];
    }
    return count < choice->nprobe ? count : choice->nprobe;
}

/* Write the lists of the nearest centroids, and those without centroids, to the scratch memory; 0 if all lists should
 * be scanned. Call it when the tables are filled: the query has been transformed for them. */
static size_t nearest_lists(const struct search *search, const struct scan *scan, const struct choice *choice,
                            struct scratch *scratch) {
    const struct probe *probe = choice->probe;
    const struct ranked *nearest = scratch->ranking.ranked;
    const size_t count = rank_nearest(search, choice, scratch, (int64_t)(COPIES * choice->count));
    int64_t *lists = scratch->lists, entries = 0;
    if (probe->allowed != NULL && (is_sparse(probe, nearest, (count + 3) / 4) || is_sparse(probe, nearest, count)))
        return 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < probe->lists_each; j++) {
            *lists = probe->lists[nearest[i].number * probe->lists_each + j];
            entries += scan->lists[*lists++].size;
        }
    if (entries >= probe->most_entries)
        return 0;
    memcpy(lists, probe->others, probe->other_count * sizeof *lists);
    return (size_t)(lists - scratch->lists) + probe->other_count;
}

static enum outcome search_nearest(const struct search *search, const struct scan *scan, const struct choice *choice,
                                   struct request *request) {
    struct tables tables;
    struct reservoir reservoir;
    if (!has_probe_room(request->scratch, choice->probe) ||
        !start(search, scan, choice->count * COPIES, request, &tables, &reservoir))
        return OUT_OF_MEMORY;
    const size_t count = nearest_lists(search, scan, choice, request->scratch);
    if (count == 0)
        return FOUND_TOO_FEW;
    scan_lists(search, scan, choice, request->scratch->lists, count, 1, &tables, &reservoir);
    return finish(search, choice, &reservoir, request);
}

enum outcome search_scan(const struct search *search, const struct scan *scan, struct choice choice,
                         struct request *requests, size_t count) {
    struct tables tables[MAX_BATCH];
    struct reservoir reservoirs[MAX_BATCH];
    enum outcome outcome = FOUND;
    for (size_t i = 0; choice.probe != NULL && i < count && outcome == FOUND; i++)
        outcome = search_nearest(search, scan, &choice, &requests[i]);
    for (size_t first = 0; choice.probe == NULL && first < count && outcome == FOUND; first += MAX_BATCH) {
        const size_t batch = count - first < MAX_BATCH ? count - first : MAX_BATCH;
        for (size_t i = 0; i < batch; i++)
            if (!start(search, scan, choice.count, &requests[first + i], &tables[i], &reservoirs[i]))
                return OUT_OF_MEMORY;
        scan_lists(search, scan, &choice, choice.lists, choice.list_count, batch, tables, reservoirs);
        for (size_t i = 0; i < batch && outcome == FOUND; i++)
            outcome = finish(search, &choice, &reservoirs[i], &requests[first + i]);
    }
    return outcome;
}
