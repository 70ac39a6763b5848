/* The loop over the blocks of a list, included once for each instruction set.
 *
 * SCAN_NAME names the function, SCAN_TARGET holds its attributes, and SCAN_UNIT(codes, stride, ahead, tables, threshold,
 * estimates) estimates the UNIT_ROWS rows of two sub-blocks whose pairs stand `stride` bytes apart, and returns a mask
 * of those above the threshold. It asks for the memory `ahead` bytes before it is needed: codes come from the last
 * cache, whose own prefetching is too late at this speed.
 *
 * SCAN_BATCH_NAME names the function for several queries, and SCAN_BATCH(codes, stride, ahead, queries, tables,
 * reservoirs, units) estimates the same rows for each.
 */
SCAN_TARGET static void SCAN_NAME(const struct list *list, size_t block_rows, const struct tables *tables,
                                  struct reservoir *reservoir) {
    if (block_rows < UNIT_ROWS) {
        kernel_scalar.scan(list, block_rows, tables, reservoir);
        return;
    }
    uint16_t estimates[UNIT_ROWS];
    const size_t block_bytes = tables->pairs * block_rows;
    const uint8_t *block = list->codes;
    for (int64_t first = 0; first < list->size; first += (int64_t)block_rows, block += block_bytes) {
        for (size_t unit = 0; unit < block_rows; unit += UNIT_ROWS) {
            const uint64_t wanted = list_mask(list, first + (int64_t)unit);
            if (!wanted)
                continue;
            const uint64_t above = SCAN_UNIT(block + unit, block_rows, block_bytes, tables, reservoir->threshold, estimates);
            if (above & wanted)
                reservoir_add(reservoir, list, first + (int64_t)unit, estimates, above & wanted);
        }
    }
}

SCAN_TARGET static void SCAN_BATCH_NAME(const struct list *list, size_t block_rows, size_t queries,
                                        const struct tables *tables, struct reservoir *reservoirs) {
    if (block_rows < UNIT_ROWS || queries == 1) {
        for (size_t query = 0; query < queries; query++)
            SCAN_NAME(list, block_rows, &tables[query], &reservoirs[query]);
        return;
    }
    struct unit units[MAX_BATCH];
    const size_t block_bytes = tables[0].pairs * block_rows;
    const uint8_t *block = list->codes;
    for (int64_t first = 0; first < list->size; first += (int64_t)block_rows, block += block_bytes) {
        for (size_t unit = 0; unit < block_rows; unit += UNIT_ROWS) {
            const uint64_t wanted = list_mask(list, first + (int64_t)unit);
            if (!wanted)
                continue;
            SCAN_BATCH(block + unit, block_rows, block_bytes, queries, tables, reservoirs, units);
            for (size_t query = 0; query < queries; query++)
                if (units[query].above & wanted)
                    reservoir_add(&reservoirs[query], list, first + (int64_t)unit, units[query].estimates,
                                  units[query].above & wanted);
        }
    }
}
