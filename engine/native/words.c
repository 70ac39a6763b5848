/* Words: terms in a sorted dictionary. */
#include "kernel.h"

#include <string.h>

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
