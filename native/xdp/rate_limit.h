// The rate limit of native/src/rate_limiter.rs. All CPUs share the slots.

#pragma once

#include "tables.h"

#define ALL 5 // times the limit: the total for a network across all kinds of response
#define EVERY_KIND 0xffffffffu
#define SECOND 1000000000ull // ns

INLINE u64 mixed(u64 value) {
    value = (value ^ value >> 32) * 0xd6e8feb86659fd93ull;
    value = (value ^ value >> 32) * 0xd6e8feb86659fd93ull;
    return value ^ value >> 32;
}

// Count one more response in this second, and return the new count.
INLINE u32 count_response(u64 hash, u32 second) {
    u32 at = hash % LIMIT_SLOTS;
    volatile u64 *slot = map_lookup(&limit_slots, &at);
    if (!slot) {
        return 0;
    }
    if (*slot >> 32 != second) {
        *slot = (u64)second << 32 | 1;
        return 1;
    }
    __sync_fetch_and_add(slot, 1);
    return *slot;
}

INLINE int is_exempt(u32 family, const u64 *address) {
    struct network_key key = {.prefix = 136, .family = family};
    if (family == 4) {
        key.prefix = 40;
    }
    __builtin_memcpy(key.address, address, 16);
    return map_lookup(&exempt_networks, &key) != 0;
}

// Count one response to a client, and return the number of responses by which its network exceeds the limit.
INLINE u32 responses_over_limit(const struct configuration *configuration, u32 family, const u64 *client, u32 kind,
                                u64 now) {
    if (configuration->limit == 0 || (configuration->exempt && is_exempt(family, client))) {
        return 0;
    }
    u64 first = client[0] & (family == 4 ? configuration->ipv4_mask : configuration->ipv6_mask[0]);
    u64 second = family == 4 ? 0 : client[1] & configuration->ipv6_mask[1];
    u64 network = mixed(mixed(configuration->seed ^ first) ^ second ^ (u64)family << 32);
    u32 limit = configuration->limit;
    u32 count = count_response(mixed(network ^ kind), now / SECOND);
    if (count > limit) {
        return count - limit; // not sent, so it doesn't count towards the total
    }
    count = count_response(mixed(network ^ EVERY_KIND), now / SECOND);
    return count > ALL * limit ? count - ALL * limit : 0;
}
