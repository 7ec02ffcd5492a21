// Selects members as plans say. lbdns/server/xdp/kernel_plan.py describes how a plan is replaced.

#pragma once

#include "tables.h"

// Return the generation's word at an index of `orders`, or 0 if it belongs to another generation.
INLINE int order_word(u32 at, u64 current, u32 *found) {
    const volatile u64 *word = map_lookup(&orders, &at);
    if (!word) {
        return 0;
    }
    u64 value = *word;
    *found = value;
    return value >> 32 == current >> 32;
}

// Select the next member of a plan. Return 0 if there is no plan, or if it is being replaced for the second time.
INLINE int select_member(u32 number, u32 *member) {
    const volatile u64 *plan = map_lookup(&plans, &number);
    struct position *position = map_lookup(&positions, &number);
    if (!plan || !position) {
        return 0;
    }
    u64 current = *plan;
    u32 base = current, length, stride;
    if (!(current >> 32) || !order_word(base, current, &length) || !length) {
        return 0;
    }
    u32 at = position->at;
    if (position->generation != current >> 32) {
        if (!order_word(base + 2, current, &stride)) {
            return 0;
        }
        at = processor_id() * stride % length;
    } else if (at >= length && !order_word(base + 1, current, &at)) {
        return 0;
    }
    if (!order_word(base + 3 + at, current, member)) {
        return 0;
    }
    position->generation = current >> 32;
    position->at = at + 1;
    return 1;
}
