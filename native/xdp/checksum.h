// The Internet checksum (RFC 1071). Sums are of 16-bit words as this processor reads them, so they need no conversion.

#pragma once

#include "kernel_types.h"

// Return the sum of both halves of 8 bytes.
INLINE u64 halves(u64 word) {
    return (word & 0xffffffff) + (word >> 32);
}

INLINE u16 folded(u64 sum) {
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

// Return the sum of bytes that begin at an odd offset, given the sum at an even one; or the other way round.
INLINE u16 swapped(u16 sum) {
    return sum << 8 | sum >> 8;
}

// Return the folded sum of `count` words of 4 bytes.
INLINE u16 sum_of(const void *bytes, int count) {
    const u32 *words = bytes;
    u64 sum = 0;
#pragma unroll
    for (int n = 0; n < 5; n++) {
        sum += n < count ? words[n] : 0;
    }
    return folded(sum);
}
