/* The lists of rows: the nearest centroid of each, and the one of the list that gets its copy.
 *
 * All centroids are compared with a row in bytes, as whole numbers, which every instruction set sums up alike. Those that
 * the rounding to bytes may have put in the wrong order are compared again in floats.
 */
#include "kernel.h"

#include <math.h>
#include <stdlib.h>

#define ROWS_AT_ONCE 16 /* their bytes stay in the first cache beside those of a block of centroids */
#define DEVIATIONS 6    /* standard deviations of the rounding of bytes up to which an order is not believed */
#define SIDE_BY_SIDE 64 /* values that are compared side by side; of fewer the compiler unrolls loops, and compares one by one */

/* The least of some values; infinity where none is below it. */
static float least_of(const float *values, size_t count) {
    float best[SIDE_BY_SIDE], least = INFINITY;
    for (size_t j = 0; j < SIDE_BY_SIDE; j++)
        best[j] = INFINITY;
    const size_t whole = count - count % SIDE_BY_SIDE;
    for (size_t i = 0; i < whole; i += SIDE_BY_SIDE)
        for (size_t j = 0; j < SIDE_BY_SIDE; j++)
            best[j] = values[i + j] < best[j] ? values[i + j] : best[j];
    for (size_t i = whole; i < count; i++)
        best[i - whole] = values[i] < best[i - whole] ? values[i] : best[i - whole];
    for (size_t j = 0; j < SIDE_BY_SIDE; j++)
        least = best[j] < least ? best[j] : least;
    return least;
}

/* The number of the next value from `first` on that is at most `limit`; `count` if there is none. */
static size_t next_below(const float *values, size_t first, size_t count, float limit) {
    for (; first + SIDE_BY_SIDE <= count; first += SIDE_BY_SIDE) {
        int32_t found = 0;
        for (size_t j = 0; j < SIDE_BY_SIDE; j++)
            found |= values[first + j] <= limit;
        if (found)
            break;
    }
    while (first < count && !(values[first] <= limit))
        first++;
    return first;
}

/* |o|^2 / 2 - x . o, exactly. */
static float distance_to(const struct kernel *kernel, const struct lists *lists, const float *row, size_t number) {
    return lists->half_squares[number] - kernel->dot_f32(row, lists->centroids + number * lists->dimensions, lists->dimensions);
}

/* The nearest centroid of a row; `distances` to all may each be wrong by `error`. */
static size_t nearest_of(const struct kernel *kernel, const struct lists *lists, const float *row, const float *distances,
                         float error, float *distance) {
    const float limit = least_of(distances, lists->count) + 2 * error;
    size_t nearest = 0;
    *distance = INFINITY;
    for (size_t i = next_below(distances, 0, lists->count, limit); i < lists->count;
         i = next_below(distances, i + 1, lists->count, limit)) {
        const float exact = distance_to(kernel, lists, row, i);
        if (exact < *distance) {
            *distance = exact;
            nearest = i;
        }
    }
    return nearest;
}

/* The list that gets the copy of a row: it minimises |x - o|^2 + (r . (x - o))^2 / |r|^2 over the centroids o but the
 * nearest, c, where r is x - c. `distances`, each of which may be wrong by `error`, are overwritten. */
static size_t second_of(const struct kernel *kernel, const struct lists *lists, const float *row, float square,
                        float *restrict distances, float error, size_t own, float distance) {
    const size_t count = lists->count;
    const float *restrict products = lists->products + own * count;
    const float residual = square / 2 + distance, scale = residual > MIN_RESIDUAL * square ? 0.25F / residual : 0;
    const float shift = square - lists->half_squares[own] + distance;
    for (size_t i = 0; i < count; i++) {
        const float along = products[i] + distances[i] + shift; /* r . (x - o) */
        distances[i] = along * along * scale + distances[i];
    }
    distances[own] = INFINITY;
    const float limit = least_of(distances, count) + 4 * error; /* a loss is wrong by twice as much */
    float least = INFINITY;
    size_t second = 0;
    for (size_t i = next_below(distances, 0, count, limit); i < count; i = next_below(distances, i + 1, count, limit)) {
        if (i == own)
            continue;
        const float exact = distance_to(kernel, lists, row, i), along = products[i] + exact + shift;
        const float loss = along * along * scale + exact;
        if (loss < least) {
            least = loss;
            second = i;
        }
    }
    return second;
}

/* A row in steps of up to MAX_STEPS; returns what its products with the codes of centroids stand for, and how wrong a
 * distance may be by its rounding and theirs. */
static struct scaled to_steps(const struct lists *lists, const float *row, int8_t *steps, float *square, float *error) {
    float largest = 0, squares = 0, along_mean = 0;
    for (size_t i = 0; i < lists->dimensions; i++) {
        largest = fabsf(row[i]) > largest ? fabsf(row[i]) : largest;
        squares += row[i] * row[i];
        along_mean += row[i] * lists->mean[i];
    }
    const float scale = MAX_STEPS / largest;
    const bool is_finite = isfinite(scale) && isfinite(squares);
    int32_t zero = 0;
    for (size_t i = 0; i < lists->dimensions; i++) {
        steps[i] = (int8_t)(is_finite ? rintf(row[i] * scale) : 0);
        zero += ZERO_STEPS * steps[i];
    }
    const float step = is_finite ? largest / MAX_STEPS : 0;
    *square = squares;
    *error = DEVIATIONS * sqrtf((squares * lists->step * lists->step + lists->spread * step * step) / 12);
    return (struct scaled){step * lists->step, zero, along_mean};
}

bool choose_lists(const struct kernel *kernel, const struct lists *lists, const float *rows, size_t count, int64_t *nearest,
                  int64_t *second) {
    const size_t padded = lists->blocks * BLOCK_CENTROIDS;
    float *distances = malloc(ROWS_AT_ONCE * padded * sizeof *distances), squares[ROWS_AT_ONCE], errors[ROWS_AT_ONCE];
    int8_t *steps = malloc(ROWS_AT_ONCE * lists->bytes);
    struct scaled scaled[ROWS_AT_ONCE] = {0};
    const bool has_memory = distances != NULL && steps != NULL;
    if (has_memory)
        memset(steps, 0, ROWS_AT_ONCE * lists->bytes);
    for (size_t first = 0; has_memory && first < count; first += ROWS_AT_ONCE) {
        const size_t some = count - first < ROWS_AT_ONCE ? count - first : ROWS_AT_ONCE;
        const float *own_rows = rows + first * lists->dimensions;
        for (size_t i = 0; i < some; i++)
            scaled[i] = to_steps(lists, own_rows + i * lists->dimensions, steps + i * lists->bytes, &squares[i], &errors[i]);
        kernel->subtract_products(lists->codes, lists->blocks, lists->bytes, steps, scaled, ROWS_AT_ONCE,
                                  lists->half_squares, distances);
        for (size_t i = 0; i < some; i++) {
            const float *row = own_rows + i * lists->dimensions;
            float *own = distances + i * padded, distance;
            const size_t found = nearest_of(kernel, lists, row, own, errors[i], &distance);
            nearest[first + i] = (int64_t)found;
            if (second != NULL)
                second[first + i] = (int64_t)second_of(kernel, lists, row, squares[i], own, errors[i], found, distance);
        }
    }
    free(distances);
    free(steps);
    return has_memory;
}
