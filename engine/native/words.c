/* Words: terms in a sorted dictionary, and BM25 over the postings of a query.
 *
 * Chunks are scored in blocks, the lists of a block by their weight. Where a chunk must reach a score, the lists are added
 * up while one that is in none of those before could still reach it; in the rest, which are the longest, only the chunks
 * are looked for that still can (MaxScore: Turtle and Flood, "Query Evaluation: Strategies and Optimizations", 1995). All
 * chunks of all segments are summed in the order of the query, so those with the same words have the same score.
 */
#include "kernel.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#define LOOKUP_COST 48       /* postings that are passed in the time in which a chunk is looked up in a block of a list */
#define SLACK (1 - 1e-9)     /* for what rounding takes from a sum of bounds */

/* ---- terms ------------------------------------------------------------------------------------------------------ */

/* The bytes of a string; none where its offsets are damaged. */
static inline const uint8_t *string_at(const struct dictionary *dictionary, int64_t number, size_t *length) {
    const int64_t start = dictionary->offsets[number], end = dictionary->offsets[number + 1];
    const bool is_sound = start >= 0 && end >= start && end <= dictionary->length;
    *length = is_sound ? (size_t)(end - start) : 0;
    return is_sound ? dictionary->bytes + start : dictionary->bytes;
}

static int compare_bytes(const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length) {
    const size_t shorter = a_length < b_length ? a_length : b_length;
    const int order = shorter ? memcmp(a, b, shorter) : 0;
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

int64_t dictionary_first(const struct dictionary *dictionary, const uint8_t *key, size_t length, bool *is_equal) {
    int64_t low = 0, high = dictionary->count;
    *is_equal = false;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        size_t held;
        const uint8_t *bytes = string_at(dictionary, middle, &held);
        const int order = compare_bytes(bytes, held, key, length);
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
            *is_equal = order == 0;
        }
    }
    return low;
}

/* ---- postings --------------------------------------------------------------------------------------------------- */

/* The postings of a term from a block on. */
struct run {
    const uint32_t *rows;
    const uint16_t *counts;
    size_t left, count;       /* all, and those in the block */
    double weight;
    double rest;              /* the most that this run and those after it add to a chunk of the block */
};

struct word_room {
    double sums[WORD_BLOCK];  /* 0 but for the chunks that are looked at */
    uint32_t touched[WORD_BLOCK + 1];
    struct run runs[];
};

struct word_room *word_room_new(size_t terms) {
    if (terms > (SIZE_MAX - sizeof(struct word_room)) / sizeof(struct run))
        return NULL;
    struct word_room *room = malloc(sizeof *room + terms * sizeof *room->runs);
    if (room != NULL)
        memset(room->sums, 0, sizeof room->sums);
    return room;
}

void word_room_free(struct word_room *room) { free(room); }

/* The postings of a term; none where their place is damaged. */
static struct run run_of(const struct lexicon *lexicon, int64_t term, double weight) {
    struct run run = {.weight = weight};
    if (term < 0 || term >= lexicon->terms)
        return run;
    const int64_t start = lexicon->starts[term], end = lexicon->starts[term + 1];
    if (start < 0 || end < start || end > lexicon->postings)
        return run;
    run.rows = lexicon->rows + start;
    run.counts = lexicon->counts + start;
    run.left = (size_t)(end - start);
    return run;
}

/* The first of ascending rows that is not less than `row`, from `from` on. */
static size_t first_row(const uint32_t *rows, size_t count, size_t from, uint32_t row) {
    size_t step = 1, low = from, high = from;
    while (high < count && rows[high] < row) {
        low = high + 1;
        high = count - high > step ? high + step : count;
        step *= 2;
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What a term adds to the score of a chunk: above 0, so that a sum of 0 tells that nothing was added. */
static inline double gain(double weight, double count, double half, double delta) {
    const double share = count / (count + half) + delta;
    const double added = weight * share;
    return added > DBL_MIN ? added : DBL_MIN;
}

size_t count_postings(const struct word_search *search) {
    size_t postings = 0;
    for (size_t i = 0; i < search->count; i++)
        for (size_t j = 0; j < search->query->count; j++)
            postings += run_of(&search->lexicons[i], search->query->terms[i * search->query->count + j], 0).left;
    return postings;
}

void score_words(const struct lexicon *lexicon, const struct word_query *query, const int64_t *terms, const int64_t *rows,
                 size_t count, double *scores) {
    for (size_t i = 0; i < count; i++)
        scores[i] = 0;
    for (size_t j = 0; j < query->count; j++) {
        const struct run run = run_of(lexicon, terms[j], query->weights[j]);
        size_t at = 0;
        for (size_t i = 0; i < count && run.left > 0; i++) {
            if (i == 0 || rows[i] < rows[i - 1])
                at = 0;
            at = first_row(run.rows, run.left, at, (uint32_t)rows[i]);
            if (at < run.left && run.rows[at] == rows[i])
                scores[i] += gain(run.weight, run.counts[at], lexicon->halves[rows[i]], query->delta);
        }
    }
}

/* ---- a block ---------------------------------------------------------------------------------------------------- */

struct block {
    int64_t first;
    size_t size;
    const float *halves;
    float least;              /* of the halves */
    const uint8_t *allowed;
};

/* Find the postings of each run in a block; returns how many there are. */
static size_t enter(struct run *runs, size_t count, const struct block *block) {
    const int64_t end = block->first + (int64_t)block->size;
    size_t postings = 0;
    for (size_t i = 0; i < count; i++) {
        struct run *run = &runs[i];
        run->rows += run->count;
        run->counts += run->count;
        run->left -= run->count;
        run->count = end > UINT32_MAX ? run->left : first_row(run->rows, run->left, 0, (uint32_t)end);
        postings += run->count;
    }
    return postings;
}

/* Write the bounds of the runs; returns how many of them, from the first one on, can reach the score. */
static size_t count_essential(struct run *runs, size_t count, const struct block *block, double delta, double least) {
    double rest = 0;
    size_t essential = 0;
    for (size_t i = count; i-- > 0;) {
        uint16_t most = 0;
        for (size_t j = 0; j < runs[i].count; j++)
            most = runs[i].counts[j] > most ? runs[i].counts[j] : most;
        rest += runs[i].count > 0 ? gain(runs[i].weight, most, block->least, delta) : 0;
        runs[i].rest = rest;
        if (essential == 0 && rest >= least)
            essential = i + 1;
    }
    return essential;
}

/* Add a run to the sums; returns how many chunks were touched. */
static size_t add_run(const struct run *run, const struct block *block, double delta, struct word_room *room,
                      size_t touched) {
    const uint32_t first = (uint32_t)block->first;
    for (size_t i = 0; i < run->count; i++) {
        const uint32_t at = run->rows[i] - first;
        if (at >= block->size) /* damaged: not ascending */
            continue;
        const double held = room->sums[at];
        room->touched[touched] = at;
        touched += held == 0;
        room->sums[at] = held + gain(run->weight, run->counts[i], block->halves[at], delta);
    }
    return touched;
}

/* Add a run to the sums of the touched chunks alone. */
static void add_to_touched(const struct run *run, const struct block *block, double delta, struct word_room *room,
                           size_t touched) {
    const uint32_t first = (uint32_t)block->first;
    if (touched * LOOKUP_COST < run->count) {
        for (size_t i = 0; i < touched; i++) {
            const uint32_t at = room->touched[i];
            const size_t found = first_row(run->rows, run->count, 0, first + at);
            if (found < run->count && run->rows[found] == first + at)
                room->sums[at] += gain(run->weight, run->counts[found], block->halves[at], delta);
        }
        return;
    }
    for (size_t i = 0; i < run->count; i++) {
        const uint32_t at = run->rows[i] - first;
        if (at < block->size && room->sums[at] > 0)
            room->sums[at] += gain(run->weight, run->counts[i], block->halves[at], delta);
    }
}

/* Forget the touched chunks whose sums are below `least`, or 0. */
static size_t keep(struct word_room *room, size_t touched, double least) {
    size_t kept = 0;
    for (size_t i = 0; i < touched; i++) {
        const uint32_t at = room->touched[i];
        const double sum = room->sums[at];
        const bool is_kept = sum >= least && sum > 0;
        room->sums[at] = is_kept ? sum : 0;
        room->touched[kept] = at;
        kept += is_kept;
    }
    return kept;
}

static size_t keep_allowed(struct word_room *room, size_t touched, const struct block *block) {
    size_t kept = 0;
    for (size_t i = 0; i < touched; i++) {
        const uint32_t at = room->touched[i];
        if (bit_at(block->allowed, block->first + at))
            room->touched[kept++] = at;
        else
            room->sums[at] = 0;
    }
    return kept;
}

/* Forget the known chunks, from `next` on; returns the next one behind the block. */
static size_t leave_known(const struct word_search *search, uint16_t column, const struct block *block, size_t next,
                          struct word_room *room) {
    for (; next < search->known_count; next++) {
        const struct known *known = &search->known[next];
        if (known->column > column || (known->column == column && known->row >= block->first + (int64_t)block->size))
            break;
        if (known->column == column && known->row >= block->first)
            room->sums[known->row - block->first] = 0;
    }
    return next;
}

/* Sum up a block; returns how many chunks reach the score: their rows are `touched`. */
static size_t sum_block(const struct word_search *search, uint16_t column, const struct block *block, double least,
                        size_t *next_known, struct word_room *room) {
    struct run *runs = room->runs;
    const double delta = search->query->delta;
    const size_t count = search->query->count;
    const size_t essential =
        least > 0 ? count_essential(runs, count, block, delta, least * SLACK) : count;
    size_t touched = 0;
    for (size_t i = 0; i < essential; i++)
        touched = add_run(&runs[i], block, delta, room, touched);
    *next_known = leave_known(search, column, block, *next_known, room);
    if (block->allowed != NULL)
        touched = keep_allowed(room, touched, block);
    for (size_t i = essential; i < count && touched > 0; i++) {
        if (runs[i].count == 0)
            continue;
        touched = keep(room, touched, least * SLACK - runs[i].rest);
        add_to_touched(&runs[i], block, delta, room, touched);
    }
    return keep(room, touched, least);
}

/* ---- the search ------------------------------------------------------------------------------------------------- */

void search_words(const struct word_search *search, double least, struct word_room *room) {
    const struct word_query *query = search->query;
    size_t next_known = 0;
    for (size_t i = 0; i < search->count && least >= 0; i++) {
        const struct lexicon *lexicon = &search->lexicons[i];
        for (size_t j = 0; j < query->count; j++)
            room->runs[j] = run_of(lexicon, query->terms[i * query->count + j], query->weights[j]);
        for (int64_t first = 0; first < lexicon->chunks && least >= 0; first += WORD_BLOCK) {
            const int64_t left = lexicon->chunks - first;
            const struct block block = {first, (size_t)(left < WORD_BLOCK ? left : WORD_BLOCK), lexicon->halves + first,
                                        lexicon->least[first / WORD_BLOCK], search->allowed[i]};
            const size_t postings = enter(room->runs, query->count, &block);
            const size_t touched =
                postings > 0 ? sum_block(search, (uint16_t)i, &block, least, &next_known, room) : 0;
            if (touched > 0)
                least = search->take(search->taker, (uint16_t)i, first, room->touched, touched, room->sums);
            for (size_t j = 0; j < touched; j++)
                room->sums[room->touched[j]] = 0;
        }
    }
}
