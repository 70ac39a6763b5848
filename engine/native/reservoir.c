/* The candidates of a scan: the rows with the largest estimates, selected by counting. */
#include "kernel.h"

#include <string.h>

uint64_t list_mask(const struct list *list, int64_t first) {
    const int64_t left = list->size - first;
    if (left <= 0)
        return 0;
    uint64_t mask = left >= UNIT_ROWS ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1;
    if (list->allowed == NULL || list->rows != NULL)
        return mask;
    const int64_t row = list->first_row + first, last = row + (left < UNIT_ROWS ? left : UNIT_ROWS) - 1;
    const uint8_t *bytes = list->allowed + (row >> 3);
    const size_t count = (size_t)((last >> 3) - (row >> 3)) + 1; /* 9 at most */
    uint64_t bits = 0;
    memcpy(&bits, bytes, count < 8 ? count : 8);
    bits >>= row & 7;
    if (count == 9)
        bits |= (uint64_t)bytes[8] << (64 - (row & 7));
    return mask & bits;
}

void reservoir_add(struct reservoir *reservoir, const struct list *list, int64_t first, const uint16_t *estimates,
                   uint64_t mask) {
    for (; mask; mask &= mask - 1) {
        const int i = __builtin_ctzll(mask);
        int64_t row = list->first_row + first + i;
        if (list->rows != NULL) {
            row = list->rows[first + i];
            if (list->allowed != NULL && !bit_at(list->allowed, row))
                continue;
        }
        if (estimates[i] <= reservoir->threshold) /* it rose within this unit */
            continue;
        reservoir->items[reservoir->size++] = (struct candidate){(uint32_t)row, list->column, estimates[i]};
        if (reservoir->size == reservoir->capacity)
            reservoir_keep(reservoir, reservoir->count);
    }
}

#define LOW_BITS 7
#define BINS 256 /* of the upper 8 bits of an estimate; twice as many as its lower 7 */

/* The number of the bin in which the `count`-th largest item lies; `count` becomes its place within that bin. */
static uint32_t bin_of(const uint32_t *bins, size_t *count) {
    uint32_t bin = BINS;
    while (bin-- > 0) {
        if (bins[bin] >= *count)
            return bin;
        *count -= bins[bin];
    }
    return 0;
}

void reservoir_keep(struct reservoir *reservoir, size_t count) {
    if (reservoir->size <= count)
        return;
    if (count == 0) {
        reservoir->size = 0;
        reservoir->threshold = MAX_ESTIMATE;
        return;
    }
    uint32_t bins[BINS] = {0};
    size_t place = count;
    for (size_t i = 0; i < reservoir->size; i++)
        bins[reservoir->items[i].estimate >> LOW_BITS]++;
    const uint32_t high = bin_of(bins, &place);
    memset(bins, 0, sizeof bins);
    for (size_t i = 0; i < reservoir->size; i++)
        if (reservoir->items[i].estimate >> LOW_BITS == high)
            bins[reservoir->items[i].estimate & ((1u << LOW_BITS) - 1)]++;
    const uint32_t limit = high << LOW_BITS | bin_of(bins, &place);
    size_t kept = 0; /* those above the limit, and the first `place` of those at it */
    for (size_t i = 0; i < reservoir->size; i++) {
        const struct candidate item = reservoir->items[i];
        if (item.estimate > limit || (item.estimate == limit && place > 0 && place--))
            reservoir->items[kept++] = item;
    }
    reservoir->size = kept;
    reservoir->threshold = (int32_t)limit;
}
