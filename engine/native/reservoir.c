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

void reservoir_start(struct reservoir *reservoir, int32_t largest) {
    reservoir->size = reservoir->above = reservoir->bin = reservoir->shift = 0;
    reservoir->threshold = reservoir->count == 0 ? MAX_ESTIMATE : -1;
    reservoir->cut = -1;
    while (largest >> reservoir->shift >= BINS)
        reservoir->shift++;
    memset(reservoir->bins, 0, BINS * sizeof *reservoir->bins);
}

/* Count one more candidate; raises the threshold when enough are above the lowest bin. */
static void count_in(struct reservoir *reservoir, uint16_t estimate) {
    const uint32_t bin = (uint32_t)estimate >> reservoir->shift;
    reservoir->bins[bin]++;
    reservoir->above += bin > reservoir->bin;
    while (reservoir->above >= reservoir->count) {
        reservoir->bin++;
        reservoir->above -= reservoir->bins[reservoir->bin];
        const int32_t below = (int32_t)(reservoir->bin << reservoir->shift) - 1;
        reservoir->threshold = below > reservoir->threshold ? below : reservoir->threshold;
    }
}

void reservoir_finish(struct reservoir *reservoir) {
    size_t kept = 0;
    for (size_t i = 0; i < reservoir->size; i++) {
        reservoir->items[kept] = reservoir->items[i];
        kept += reservoir->items[i].estimate >> reservoir->shift >= (int32_t)reservoir->bin;
    }
    reservoir->size = kept;
}

/* Make room for a unit: drop what has fallen below the threshold, and if too many rows have nearly the same estimate,
 * all but the best `count`. */
static void make_room(struct reservoir *reservoir) {
    reservoir_finish(reservoir);
    if (reservoir->size > (reservoir->capacity - UNIT_ROWS) / 2)
        reservoir_keep(reservoir, reservoir->count, 0);
}

void reservoir_add(struct reservoir *reservoir, const struct list *list, int64_t first, const uint16_t *estimates,
                   uint64_t mask) {
    if (reservoir->size + UNIT_ROWS > reservoir->capacity)
        make_room(reservoir);
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
        count_in(reservoir, estimates[i]);
    }
}

#define LOW_BITS 8

/* The number of the bin in which the `count`-th largest item lies; `count` becomes its place within that bin. */
static uint32_t bin_of(const uint32_t *bins, size_t *count) {
    uint32_t bin = 1 << LOW_BITS;
    while (bin-- > 0) {
        if (bins[bin] >= *count)
            return bin;
        *count -= bins[bin];
    }
    return 0;
}

void reservoir_keep(struct reservoir *reservoir, size_t count, size_t more) {
    if (reservoir->size <= count || count == 0)
        return;
    uint32_t bins[1 << LOW_BITS] = {0};
    size_t place = count;
    for (size_t i = 0; i < reservoir->size; i++)
        bins[reservoir->items[i].estimate >> LOW_BITS]++;
    const uint32_t high = bin_of(bins, &place);
    memset(bins, 0, sizeof bins);
    for (size_t i = 0; i < reservoir->size; i++)
        if (reservoir->items[i].estimate >> LOW_BITS == high)
            bins[reservoir->items[i].estimate & ((1u << LOW_BITS) - 1)]++;
    const uint32_t limit = high << LOW_BITS | bin_of(bins, &place);
    const size_t equal = bins[limit & ((1u << LOW_BITS) - 1)];
    place = equal - place <= more ? equal : place;
    const int32_t cut = (int32_t)limit - (place == equal);
    size_t kept = 0; /* those above the limit, and the first `place` of those at it */
    for (size_t i = 0; i < reservoir->size; i++) {
        const struct candidate item = reservoir->items[i];
        if (item.estimate > limit || (item.estimate == limit && place > 0 && place--))
            reservoir->items[kept++] = item;
    }
    reservoir->size = kept;
    reservoir->cut = cut > reservoir->cut ? cut : reservoir->cut;
    reservoir->threshold = cut > reservoir->threshold ? cut : reservoir->threshold;
}
