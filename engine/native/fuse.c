/* Words and vectors: the best chunks by a score that has both.
 *
 * Chunks that are not neighbours of the query are compared in the order of their words, while these could still make a hit
 * of one with the largest cosine that it may have (Fagin, "Optimal Aggregation Algorithms for Middleware", 2003).
 */
#include "kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef PENDING
#define PENDING 1024         /* chunks that wait to be compared; more let fewer be compared, and words be pruned later */
#endif
#define AT_ONCE 32           /* chunks whose memory is asked for together */
#define CACHE_LINE 64
#define ROUNDING (1 - 1e-9)  /* what a fused score may lose */

/* A chunk that its words may make a hit. */
struct pending {
    double words;
    uint32_t row;
    uint16_t column;
};

struct state {
    const struct fuse *fuse;
    size_t size, compared;
    bool has_too_many;
    struct pending items[PENDING + WORD_BLOCK]; /* no order, or a heap */
};

/* ---- scores ----------------------------------------------------------------------------------------------------- */

static double cosine_of(const struct fuse *fuse, uint16_t column, uint32_t row) {
    const int64_t number = row;
    double score;
    score_rows(fuse->search, column, &number, 1, fuse->query, &score);
    return fuse->search->metric == METRIC_EUCLIDEAN ? 1.0 - score * score / 2.0 : score;
}

static void add(const struct fuse *fuse, double words, double cosine, double bonus, uint32_t row, uint16_t column) {
    const struct fusion *fusion = &fuse->fusion;
    const double by_words = words > 0 ? words / (words + fusion->c) : 0;
    const double sum = fusion->a * cosine + (1 - fusion->a) * by_words + bonus;
    const double score = isnan(sum) ? -INFINITY : sum; /* of a vector that is not finite */
    struct best *best = fuse->best;
    if (best->size < best->k || (best->k > 0 && score >= best->hits[0].score))
        best_add(best, (struct hit){score, row, column});
}

/* The words with which an unknown chunk may be a hit; INFINITY if none can. */
static double least_words(const struct fuse *fuse) {
    const struct best *best = fuse->best;
    const double a = fuse->fusion.a;
    if (fuse->bound == -INFINITY || best->k == 0)
        return INFINITY;
    if (best->size < best->k)
        return 0;
    const double least = best->hits[0].score - a * fuse->bound;
    const double share = a < 1 ? least / (1 - a) : least > 0 ? INFINITY : 0;
    if (!(share < 1))
        return INFINITY;
    return share > 0 ? fuse->fusion.c * share / (1 - share) * ROUNDING : 0;
}

/* ---- pending chunks --------------------------------------------------------------------------------------------- */

static void sift_down(struct pending *items, size_t size, size_t i) {
    const struct pending moved = items[i];
    for (size_t child; (child = 2 * i + 1) < size; i = child) {
        child += child + 1 < size && items[child + 1].words > items[child].words;
        if (items[child].words <= moved.words)
            break;
        items[i] = items[child];
    }
    items[i] = moved;
}

/* Compare the pending chunks, those with the best words first, while one may be a hit. */
static void compare_pending(struct state *state) {
    const struct fuse *fuse = state->fuse;
    struct pending *items = state->items;
    struct pending next[AT_ONCE];
    for (size_t i = state->size / 2; i-- > 0;)
        sift_down(items, state->size, i);
    while (state->size > 0) {
        const double least = least_words(fuse);
        size_t count = 0;
        while (count < AT_ONCE && state->size > 0 && items[0].words >= least) {
            next[count] = items[0];
            items[0] = items[--state->size];
            if (state->size > 0)
                sift_down(items, state->size, 0);
            const uint8_t *vectors = fuse->search->columns[next[count].column].vectors;
            for (size_t i = 0; i < fuse->search->row_bytes; i += CACHE_LINE)
                __builtin_prefetch(vectors + (size_t)next[count].row * fuse->search->row_bytes + i);
            count++;
        }
        if (count == 0 || state->has_too_many)
            break;
        for (size_t i = 0; i < count; i++)
            add(fuse, next[i].words, cosine_of(fuse, next[i].column, next[i].row), 0, next[i].row, next[i].column);
        state->compared += count;
        state->has_too_many = state->compared > fuse->most;
    }
    state->size = 0;
}

static double take(void *taker, uint16_t column, int64_t first, const uint32_t *rows, size_t count, const double *sums) {
    struct state *state = taker;
    for (size_t i = 0; i < count; i++)
        state->items[state->size++] = (struct pending){sums[rows[i]], (uint32_t)(first + rows[i]), column};
    if (state->size >= PENDING)
        compare_pending(state);
    return state->has_too_many ? -1 : least_words(state->fuse);
}

/* ---- known chunks ----------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const struct known *x = a, *y = b;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Sort the known chunks, and join those of one place; returns how many there are. */
static size_t sort_known(struct known *known, size_t count) {
    size_t kept = 0;
    qsort(known, count, sizeof *known, by_place);
    for (size_t i = 0; i < count; i++) {
        struct known *last = kept > 0 ? &known[kept - 1] : NULL;
        if (last == NULL || last->column != known[i].column || last->row != known[i].row) {
            known[kept++] = known[i];
            continue;
        }
        last->bonus += known[i].bonus;
        last->cosine = isnan(last->cosine) ? known[i].cosine : last->cosine;
    }
    return kept;
}

void add_joined(struct best *best, struct known *known, size_t count) {
    const size_t kept = sort_known(known, count);
    for (size_t i = 0; i < kept && best->k > 0; i++) {
        const double sum = (isnan(known[i].cosine) ? 0 : known[i].cosine) + known[i].bonus;
        const double score = isnan(sum) ? -INFINITY : sum;
        if (best->size < best->k || score >= best->hits[0].score)
            best_add(best, (struct hit){score, known[i].row, known[i].column});
    }
}

/* Add the known chunks, sorted. False without memory. */
static bool add_known(const struct fuse *fuse, const struct word_search *search) {
    const struct known *known = search->known;
    const size_t count = search->known_count;
    int64_t *rows = malloc(count * (sizeof *rows + sizeof(double)) + 1);
    if (rows == NULL)
        return false;
    double *words = (double *)(rows + count);
    for (size_t start = 0, end; start < count; start = end) {
        const uint16_t column = known[start].column;
        for (end = start; end < count && known[end].column == column; end++)
            rows[end] = known[end].row;
        const int64_t *terms = search->query->terms + column * search->query->count;
        score_words(&search->lexicons[column], search->query, terms, rows + start, end - start, words + start);
    }
    for (size_t i = 0; i < count; i++) {
        const double cosine = known[i].cosine;
        add(fuse, words[i], isnan(cosine) ? cosine_of(fuse, known[i].column, known[i].row) : cosine, known[i].bonus,
            known[i].row, known[i].column);
    }
    free(rows);
    return true;
}

enum outcome search_fused(const struct fuse *fuse, const struct word_search *words, struct known *known) {
    struct word_search search = *words;
    search.known = known;
    search.known_count = sort_known(known, words->known_count);
    if (!add_known(fuse, &search))
        return OUT_OF_MEMORY;
    const double least = least_words(fuse);
    if (least == INFINITY)
        return FOUND;
    struct word_room *room = word_room_new(words->query->count);
    struct state *state = malloc(sizeof *state);
    enum outcome outcome = OUT_OF_MEMORY;
    if (room != NULL && state != NULL) {
        state->fuse = fuse;
        state->size = state->compared = 0;
        state->has_too_many = false;
        search.take = take;
        search.taker = state;
        search_words(&search, least, room);
        compare_pending(state);
        outcome = state->has_too_many ? FOUND_TOO_FEW : FOUND;
    }
    word_room_free(room);
    free(state);
    return outcome;
}

/* ---- feedback --------------------------------------------------------------------------------------------------- */

/* Add share * vector to the mean. */
static void add_share(const struct search *search, const struct hit *hit, float share, float *mean) {
    const uint8_t *vector = search->columns[hit->column].vectors + (size_t)hit->row * search->row_bytes;
    const bool is_f16 = search->row_bytes == search->dimensions * sizeof(uint16_t);
    for (size_t i = 0; i < search->dimensions; i++) {
        float value;
        uint16_t half;
        if (is_f16) {
            memcpy(&half, vector + i * sizeof half, sizeof half);
            value = half_to_float(half);
        } else {
            memcpy(&value, vector + i * sizeof value, sizeof value);
        }
        mean[i] += share * value;
    }
}

void add_feedback(const struct search *search, struct hit *hits, size_t count, size_t seeds, double sharpness,
                  double weight, float *mean) {
    seeds = seeds < count ? seeds : count;
    double largest = -INFINITY, sum = 0;
    for (size_t i = 0; i < seeds; i++)
        largest = hits[i].score > largest ? hits[i].score : largest;
    for (size_t i = 0; i < seeds; i++)
        sum += exp(sharpness * (hits[i].score - largest));
    memset(mean, 0, search->dimensions * sizeof *mean);
    for (size_t i = 0; i < seeds; i++)
        add_share(search, &hits[i], (float)(exp(sharpness * (hits[i].score - largest)) / sum), mean);
    const compare_fn dot =
        kernel_compare(search->kernel, METRIC_DOT, search->row_bytes == search->dimensions * sizeof(uint16_t));
    for (size_t i = 0; i < count; i++) {
        const uint8_t *vector = search->columns[hits[i].column].vectors + (size_t)hits[i].row * search->row_bytes;
        hits[i].score += weight * (double)dot(mean, vector, search->dimensions);
    }
}
