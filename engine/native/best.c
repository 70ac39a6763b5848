/* The best rows of a search, by score and then by chunk id. */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

struct slice {
    const uint8_t *bytes;
    size_t length;
};

/* The id of a row; empty if its offsets are damaged. */
static struct slice id_of(const struct column *column, uint32_t row) {
    const size_t number = row / (size_t)column->batch_rows;
    if (number >= column->id_batches)
        return (struct slice){NULL, 0};
    const struct id_batch *batch = &column->ids[number];
    const int64_t index = row % column->batch_rows;
    if (index >= batch->rows)
        return (struct slice){NULL, 0};
    const int64_t start = batch->offsets[index], end = batch->offsets[index + 1];
    if (start < 0 || end < start || end > batch->length)
        return (struct slice){NULL, 0};
    return (struct slice){batch->bytes + start, (size_t)(end - start)};
}

/* Whether hit a comes after hit b. */
static bool is_after(const struct column *columns, const struct hit *a, const struct hit *b) {
    if (a->score != b->score)
        return a->score < b->score;
    const struct slice x = id_of(&columns[a->column], a->row), y = id_of(&columns[b->column], b->row);
    const size_t shorter = x.length < y.length ? x.length : y.length;
    const int order = shorter ? memcmp(x.bytes, y.bytes, shorter) : 0;
    if (order || x.length != y.length)
        return order ? order > 0 : x.length > y.length;
    return a->column != b->column ? a->column > b->column : a->row > b->row; /* without ids, or with damaged ones */
}

static void sift_down(const struct best *best, size_t size, size_t i) {
    struct hit *hits = best->hits;
    const struct hit moved = hits[i];
    for (size_t child; (child = 2 * i + 1) < size; i = child) {
        if (child + 1 < size && is_after(best->columns, &hits[child + 1], &hits[child]))
            child++;
        if (!is_after(best->columns, &hits[child], &moved))
            break;
        hits[i] = hits[child];
    }
    hits[i] = moved;
}

void best_add(struct best *best, struct hit hit) {
    struct hit *hits = best->hits;
    if (best->size == best->k) {
        if (best->k > 0 && is_after(best->columns, &hits[0], &hit)) {
            hits[0] = hit;
            sift_down(best, best->size, 0);
        }
        return;
    }
    size_t i = best->size++;
    for (size_t parent; i > 0; i = parent) {
        parent = (i - 1) / 2;
        if (!is_after(best->columns, &hit, &hits[parent]))
            break;
        hits[i] = hits[parent];
    }
    hits[i] = hit;
}

void best_sort(struct best *best) {
    for (size_t size = best->size; size > 1; size--) {
        const struct hit last = best->hits[0];
        best->hits[0] = best->hits[size - 1];
        best->hits[size - 1] = last;
        sift_down(best, size - 1, 0);
    }
}
