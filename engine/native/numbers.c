/* A list of numbers, read out of a JSON object: the vector of a request, which is nearly all of its body. */
#include "kernel.h"

#include <float.h>
#include <string.h>

#define MAX_DIGITS 19       /* of a number that fits 64 bits */
#define MAX_EXACT_POWER 22  /* the largest power of ten that a double holds exactly */
#define DOUBLE_ONLY 0x1fffffff /* bits of a double's fraction that a float does not have */
#define HALF_WAY 0x10000000
#define MAX_ERROR 8         /* units in the last place by which `decimal` may be off, with room to spare */

static const double POWERS[MAX_EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

struct text {
    const uint8_t *next, *end;
};

static void skip_spaces(struct text *text) {
    while (text->next < text->end &&
           (*text->next == ' ' || *text->next == '\n' || *text->next == '\r' || *text->next == '\t'))
        text->next++;
}

/* Whether the next character, after spaces, is this one, which is then behind. */
static bool accept(struct text *text, uint8_t character) {
    skip_spaces(text);
    if (text->next == text->end || *text->next != character)
        return false;
    text->next++;
    return true;
}

static bool is_digit(const struct text *text) {
    return text->next < text->end && (uint8_t)(*text->next - '0') <= 9;
}

/* digits * 10^power, within MAX_ERROR units in the last place. False where that takes more than two steps. */
static bool decimal(uint64_t digits, int power, double *value) {
    *value = (double)digits;
    for (int steps = 0; power < 0 && steps < 2; steps++) {
        const int step = power < -MAX_EXACT_POWER ? MAX_EXACT_POWER : -power;
        *value /= POWERS[step];
        power += step;
    }
    for (int steps = 0; power > 0 && steps < 2; steps++) {
        const int step = power > MAX_EXACT_POWER ? MAX_EXACT_POWER : power;
        *value *= POWERS[step];
        power -= step;
    }
    return power == 0;
}

/* The float next to a double that is next to the number that was written. False where the double is so close to the
 * middle between two floats that its own error could decide, or where there is no such normal float. */
static bool narrow(double wide, float *value) {
    uint64_t bits;
    memcpy(&bits, &wide, sizeof bits);
    const int64_t from_middle = (int64_t)(bits & DOUBLE_ONLY) - HALF_WAY;
    *value = (float)wide;
    if (wide == 0)
        return true;
    return (from_middle > MAX_ERROR || from_middle < -MAX_ERROR) && wide >= FLT_MIN && wide <= FLT_MAX;
}

/* The value of eight digits (Lemire, "Number Parsing at a Gigabyte per Second", 2021). False if one is not a digit. */
static inline bool eight_digits(const uint8_t *bytes, uint64_t *value) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) /* one load where bytes are in this order already */
        v = v << 8 | bytes[i];
    if (((v & 0xf0f0f0f0f0f0f0f0) | ((v + 0x0606060606060606) & 0xf0f0f0f0f0f0f0f0) >> 4) != 0x3333333333333333)
        return false;
    v -= 0x3030303030303030;
    v = v * 10 + (v >> 8);
    *value = ((v & 0x000000ff000000ff) * 0x000f424000000064 + (v >> 16 & 0x000000ff000000ff) * 0x0000271000000001) >> 32;
    return true;
}

/* Append the digits that come next to `digits`; returns how many there were. */
static inline int read_digits(struct text *text, uint64_t *digits) {
    const uint8_t *first = text->next;
    for (uint64_t eight; text->end - text->next >= 8 && eight_digits(text->next, &eight); text->next += 8)
        *digits = *digits * 100000000 + eight;
    for (; is_digit(text); text->next++)
        *digits = *digits * 10 + (uint64_t)(*text->next - '0');
    return text->next - first > MAX_DIGITS ? MAX_DIGITS + 1 : (int)(text->next - first);
}

/* The exponent of a number, if it has one. False if it has no digits, or more than any exponent needs. */
static bool read_exponent(struct text *text, int *power) {
    if (text->next == text->end || (*text->next | 0x20) != 'e')
        return true;
    text->next++;
    const bool is_small = text->next < text->end && *text->next == '-';
    text->next += text->next < text->end && (*text->next == '-' || *text->next == '+');
    uint64_t exponent = 0;
    const int count = read_digits(text, &exponent);
    *power += is_small ? -(int)(exponent % 1000) : (int)(exponent % 1000);
    return count > 0 && count <= 3;
}

/* A JSON number (RFC 8259, 6) as float32. False for anything else, and for the rare number that takes more care. */
static bool read_number(struct text *text, float *value) {
    const bool is_negative = text->next < text->end && *text->next == '-';
    text->next += is_negative;
    const bool is_zero = text->next < text->end && *text->next == '0';
    uint64_t digits = 0;
    int count = read_digits(text, &digits), power = 0;
    if (count == 0 || (is_zero && count > 1))
        return false;
    count -= is_zero;
    if (text->next < text->end && *text->next == '.') {
        const uint8_t *point = text->next++;
        if (digits == 0)
            while (text->next < text->end && *text->next == '0')
                text->next++;
        count += read_digits(text, &digits);
        power = (int)(point + 1 - text->next);
        if (power == 0 || power < -999)
            return false;
    }
    double wide;
    if (count > MAX_DIGITS || !read_exponent(text, &power) || !decimal(digits, digits == 0 ? 0 : power, &wide) ||
        !narrow(wide, value))
        return false;
    *value = is_negative ? -*value : *value;
    return true;
}

/* A list of numbers. False if it is none, or has more than `most`. */
static bool read_list(struct text *text, float *values, size_t most, size_t *count) {
    *count = 0;
    if (!accept(text, '['))
        return false;
    if (accept(text, ']'))
        return true;
    do {
        skip_spaces(text);
        if (*count == most || !read_number(text, &values[*count]))
            return false;
        ++*count;
    } while (accept(text, ','));
    return accept(text, ']');
}

/* Skip the rest of a string. */
static bool skip_string(struct text *text) {
    for (; text->next < text->end; text->next++) {
        if (*text->next == '"') {
            text->next++;
            return true;
        }
        if (*text->next == '\\' && ++text->next == text->end)
            return false;
    }
    return false;
}

/* Skip one value, up to the comma or the brace behind it. */
static bool skip_value(struct text *text) {
    for (int depth = 0; text->next < text->end; ) {
        const uint8_t character = *text->next;
        if (depth == 0 && (character == ',' || character == '}'))
            return true;
        text->next++;
        if (character == '"' && !skip_string(text))
            return false;
        depth += (character == '{' || character == '[') - (character == '}' || character == ']');
        if (depth < 0)
            return false;
    }
    return false;
}

bool read_vector(const uint8_t *body, size_t length, const uint8_t *name, size_t name_length, float *values, size_t most,
                 struct found_vector *found) {
    struct text text = {body, body + length};
    bool is_found = false;
    if (!accept(&text, '{'))
        return false;
    do {
        if (!accept(&text, '"'))
            return false;
        const uint8_t *key = text.next;
        if (!skip_string(&text))
            return false;
        const size_t key_length = (size_t)(text.next - key) - 1;
        if (memchr(key, '\\', key_length) != NULL || !accept(&text, ':'))
            return false;
        if (key_length != name_length || memcmp(key, name, name_length) != 0) {
            if (!skip_value(&text))
                return false;
            continue;
        }
        skip_spaces(&text);
        found->start = (size_t)(text.next - body);
        if (is_found || !read_list(&text, values, most, &found->count))
            return false;
        found->end = (size_t)(text.next - body);
        is_found = true;
    } while (accept(&text, ','));
    return is_found && accept(&text, '}');
}
