/* Phrases: whether words stand in a text one after the other, told without normalizing the text.
 *
 * ASCII is its own normal form, so a place where all characters from the one before the phrase to the one behind it are
 * ASCII is decided here. Where others are near, or may become letters of ASCII when they are normalized, the caller has to
 * normalize the text.
 */
#include "kernel.h"

#include <string.h>

#define STRIDE 64  /* places that are tested at once */
#define MAX_GAP 8  /* signs between two words */
#define IS_ASCII(byte) ((byte) < 0x80)

static bool is_letter(uint8_t byte) {
    const uint8_t lower = byte | 0x20;
    return (lower >= 'a' && lower <= 'z') || (byte >= '0' && byte <= '9');
}

static uint8_t lowered(uint8_t byte) { return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte; }

/* Whether three bytes are a sign that is usual beside words: a quotation mark, a dash, a bullet or dots. */
static bool is_sign(const uint8_t *character) {
    return character[0] == 0xE2 && character[1] == 0x80 && character[2] >= 0x90 && character[2] <= 0xA6 &&
           character[2] != 0x97; /* a line below the character before */
}

static enum standing beside(const uint8_t *byte, bool is_long) {
    if (!IS_ASCII(*byte))
        return is_long ? STANDS : UNDECIDED;
    return is_letter(*byte) || *byte == '_' ? ABSENT : STANDS;
}

/* What the characters before and behind a place say: those of a word end its chance, and one that is not ASCII and no usual
 * sign may belong to a word or not. */
static enum standing before_place(const uint8_t *text, size_t at) {
    return at == 0 ? STANDS : beside(text + at - 1, at >= 3 && is_sign(text + at - 3));
}

static enum standing behind_place(const uint8_t *text, size_t length, size_t at) {
    return at == length ? STANDS : beside(text + at, length - at >= 3 && is_sign(text + at));
}

/* Whether the phrase begins at a place of the text. */
static enum standing stands_at(const uint8_t *text, size_t length, size_t at, const uint8_t *phrase, size_t size) {
    const enum standing before = before_place(text, at);
    if (before == ABSENT)
        return ABSENT;
    for (size_t i = 0; i < size; i++) {
        const size_t start = at;
        if (phrase[i] == ' ')
            while (at < length && IS_ASCII(text[at]) && !is_letter(text[at]) && at - start <= MAX_GAP)
                at++;
        else if (at < length && lowered(text[at]) == phrase[i])
            at++;
        if (at - start > MAX_GAP)
            return ABSENT;
        if (at == start)
            return at < length && !IS_ASCII(text[at]) ? UNDECIDED : ABSENT;
    }
    const enum standing behind = behind_place(text, length, at);
    return behind < before ? behind : before;
}

/* Whether a character stays one or more that are neither letters nor digits of ASCII nor its underscore. */
static bool is_foreign(uint32_t point) {
    if (point < 0xC0) /* those below 0x80 are damaged */
        return point >= 0xA0 && point != 0xAA && point != 0xAD && point != 0xB2 && point != 0xB3 &&
               (point < 0xB9 || point == 0xBB || point == 0xBF);
    if (point < 0x180)
        return point != 0x130 && point != 0x132 && point != 0x133 && point != 0x13F && point != 0x140 &&
               point != 0x149 && point != 0x17F;
    return (point >= 0x391 && point < 0x482) || (point >= 0x5D0 && point < 0x5EB) || (point >= 0x620 && point < 0x66D) ||
           (point >= 0x904 && point < 0x964) || (point >= 0x2010 && point < 0x2028) ||
           (point >= 0x2030 && point < 0x203C) || (point >= 0x2190 && point < 0x2300) ||
           (point >= 0x2500 && point < 0x2800) || (point >= 0x3001 && point < 0x3100) ||
           (point >= 0x4E00 && point < 0xA000) || (point >= 0xAC00 && point < 0xD7A4) ||
           (point >= 0x1F300 && point < 0x1FB00);
}

/* Whether normalizing gives the text no letter of ASCII that it has not, and brings none together. */
static bool is_harmless(const uint8_t *text, size_t length) {
    for (size_t i = 0; i < length;) {
        if (IS_ASCII(text[i])) {
            i++;
            continue;
        }
        const size_t size = text[i] < 0xE0 ? 2 : text[i] < 0xF0 ? 3 : 4;
        if (text[i] < 0xC2 || text[i] > 0xF4 || length - i < size)
            return false;
        uint32_t point = text[i] & (0xFFu >> (size + 1));
        for (size_t j = 1; j < size; j++) {
            if ((text[i + j] & 0xC0) != 0x80)
                return false;
            point = point << 6 | (text[i + j] & 0x3Fu);
        }
        if (!is_foreign(point))
            return false;
        i += size;
    }
    return true;
}

/* Whether all of the text is decided by the places where the first word of the phrase stands. */
static bool is_decided(const uint8_t *text, size_t length) {
    uint8_t any = 0;
    for (size_t i = 0; i < length; i++)
        any |= text[i];
    return IS_ASCII(any) || is_harmless(text, length);
}

/* The first place from `at` on, below `places`, that two bytes and their distance allow, or `places`. A few more places are
 * allowed than those of the word in any case: bytes are compared but for one bit. */
static size_t next_place(const uint8_t *text, size_t places, size_t at, size_t distance, const uint8_t bytes[2]) {
    while (places - at >= STRIDE) {
        const uint8_t *firsts = text + at, *lasts = firsts + distance;
        uint8_t hits[STRIDE];
        uint64_t words[STRIDE / sizeof(uint64_t)];
        for (size_t i = 0; i < STRIDE; i++)
            hits[i] = (uint8_t)(((firsts[i] | 0x20) == bytes[0]) & ((lasts[i] | 0x20) == bytes[1]));
        memcpy(words, hits, sizeof words);
        size_t word = 0;
        while (word < STRIDE / sizeof(uint64_t) && words[word] == 0)
            word++;
        if (word < STRIDE / sizeof(uint64_t)) {
            size_t hit = word * sizeof(uint64_t);
            while (!hits[hit])
                hit++;
            return at + hit;
        }
        at += STRIDE;
    }
    while (at < places && ((text[at] | 0x20) != bytes[0] || (text[at + distance] | 0x20) != bytes[1]))
        at++;
    return at;
}

enum standing find_phrase(const uint8_t *text, size_t length, const uint8_t *phrase, size_t size) {
    if (size == 0)
        return UNDECIDED;
    size_t last = 0; /* of the first word */
    while (last + 1 < size && phrase[last + 1] != ' ')
        last++;
    const uint8_t bytes[] = {phrase[0] | 0x20, phrase[last] | 0x20};
    const size_t places = length > last ? length - last : 0;
    enum standing found = ABSENT;
    for (size_t at = next_place(text, places, 0, last, bytes); at < places;
         at = next_place(text, places, at + 1, last, bytes)) {
        const enum standing here = stands_at(text, length, at, phrase, size);
        if (here == STANDS)
            return STANDS;
        found = here > found ? here : found;
    }
    return found == ABSENT && !is_decided(text, length) ? UNDECIDED : found;
}
