/* CRC-32, zlib's, of message formats 0 and 1: by table. Whoever includes it has tables of its own, and calls tl_crc32_start()
 * once before the first checksum. */
#ifndef TIDELOG_CRC32_H
#define TIDELOG_CRC32_H

#include <stddef.h>
#include <stdint.h>

static uint32_t tl_legacy[8][256];

static inline uint32_t tl_crc32(const uint8_t *p, size_t n) {
    uint32_t crc = 0xffffffffu;
    while (n >= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = tl_legacy[7][low & 0xff] ^ tl_legacy[6][low >> 8 & 0xff] ^ tl_legacy[5][low >> 16 & 0xff]
            ^ tl_legacy[4][low >> 24] ^ tl_legacy[3][p[4]] ^ tl_legacy[2][p[5]] ^ tl_legacy[1][p[6]] ^ tl_legacy[0][p[7]];
        p += 8;
        n -= 8;
    }
    while (n--) crc = crc >> 8 ^ tl_legacy[0][(crc ^ *p++) & 0xff];
    return ~crc;
}

static inline void tl_crc32_start(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
        tl_legacy[0][n] = crc;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++)
            tl_legacy[k][n] = tl_legacy[k - 1][n] >> 8 ^ tl_legacy[0][tl_legacy[k - 1][n] & 0xff];
}

#endif
