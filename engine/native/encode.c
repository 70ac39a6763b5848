/* A vector of a request as a query: checked, scaled, in float32. */
#include "kernel.h"

#include <math.h>

/* Several sums, so that an addition need not wait for the one before. */
#define SUMS 8

static bool may_be_query(double length, bool is_unit) {
    return length <= MAX_NORM && !(is_unit && length < MIN_NORM); /* false for NaN, too */
}

bool encode_f32(const float *vector, size_t d, bool is_unit, float *query) {
    double sums[SUMS] = {0}, total = 0;
    size_t i = 0;
    for (; i + SUMS <= d; i += SUMS)
        for (size_t j = 0; j < SUMS; j++)
            sums[j] += (double)vector[i + j] * vector[i + j];
    for (; i < d; i++)
        total += (double)vector[i] * vector[i];
    for (size_t j = 0; j < SUMS; j++)
        total += sums[j];
    const double length = sqrt(total), divisor = is_unit ? length : 1;
    if (!may_be_query(length, is_unit))
        return false;
    for (i = 0; i < d; i++)
        query[i] = (float)(vector[i] / divisor);
    return true;
}

bool encode_f64(const double *vector, size_t d, bool is_unit, float *query) {
    double sums[SUMS] = {0}, total = 0;
    size_t i = 0;
    for (; i + SUMS <= d; i += SUMS)
        for (size_t j = 0; j < SUMS; j++)
            sums[j] += vector[i + j] * vector[i + j];
    for (; i < d; i++)
        total += vector[i] * vector[i];
    for (size_t j = 0; j < SUMS; j++)
        total += sums[j];
    const double length = sqrt(total), divisor = is_unit ? length : 1;
    if (!may_be_query(length, is_unit))
        return false;
    for (i = 0; i < d; i++)
        query[i] = (float)(vector[i] / divisor);
    return true;
}
