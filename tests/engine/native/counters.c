/* Counts for libFuzzer the branches of a kernel that gcc has compiled with -fsanitize-coverage=trace-pc, which libFuzzer
   itself knows only as clang compiles them. Two branches may share a counter. */
#include <stddef.h>
#include <stdint.h>

#define COUNTERS (1u << 16)

void __sanitizer_cov_8bit_counters_init(uint8_t *first, uint8_t *end);
void __sanitizer_cov_pcs_init(const uintptr_t *first, const uintptr_t *end);

static uint8_t counters[COUNTERS];
static uintptr_t places[2 * COUNTERS];

/* Hidden: libFuzzer has one of this name that ends the process. */
__attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc(void)
{
    uintptr_t place = (uintptr_t)__builtin_return_address(0) - (uintptr_t)places;
    counters[(place ^ place >> 16) & (COUNTERS - 1)]++;
}

__attribute__((constructor)) static void begin(void)
{
    for (size_t i = 0; i < COUNTERS; i++)
        places[2 * i] = (uintptr_t)begin + i;
    __sanitizer_cov_8bit_counters_init(counters, counters + COUNTERS);
    __sanitizer_cov_pcs_init(places, places + 2 * COUNTERS);
}
