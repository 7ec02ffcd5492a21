// The tables that lbdns fills and answers.c reads. lbdns/server/xdp/table_layouts.py has the same layouts.

#pragma once

#include "kernel_types.h"

#define KINDS 6      // kinds of response: without OPT, with OPT, with DO; each without and with RD
#define WORDS 12     // of 8 bytes: the longest question
#define LONGEST_TAIL 496
#define NO_PLAN 0xffffffffu
#define LIMIT_SLOTS 65536

// The addresses and ports that lbdns answers, as an interface sees them
struct address_key {
    u8 address[16]; // an IPv4 address is followed by zeros
    u32 family;     // 4 or 6
    u32 interface;
    u16 port; // in network order
    u16 vlan; // 0: no tag
};

struct address {
    u16 mac[3];
    u16 unused;
};

struct question_key {
    u64 words[WORDS]; // the question in lower case, followed by zeros
    u64 length;       // bytes
};

struct question {
    u32 variants[KINDS]; // by kind: the index of the first member's variant, 0 if there is none
    u32 plan;            // NO_PLAN: one variant for all clients
    u32 members;
    u32 counter;         // counts the answers
    u32 member_counters; // the first member's; each counts a member's selections
};

// A precompiled response without the id and the question
struct variant {
    u8 head[10];
    u16 length;      // of the tail
    u16 head_sum;    // one's complement sum of the head, as this processor reads it
    u16 tail_sum;    // the same of the tail, if it begins at an even offset
    u8 tail[LONGEST_TAIL];
};

struct configuration {
    u64 lease; // ns, monotonic: when answering ends, unless it is renewed
    u64 seed;
    u64 ipv6_mask[2];
    u32 ipv4_mask;
    u32 limit; // 0: none
    u32 slip;
    u32 exempt;   // networks in exempt_networks
    u32 counters; // for each CPU
    u8 time_to_live;
    u8 hop_limit;
    u16 fragment; // flags of answers over IPv4, in network order
    u32 truncated[KINDS]; // indexes of variants
};

struct position {
    u32 generation;
    u32 at;
};

struct network_key {
    u32 prefix; // bits, with those of the family
    u8 family;
    u8 address[16];
    u8 unused[3];
};

// The first counters of each CPU
enum { ANSWERED, LIMIT_DROPPED, LIMIT_CUT, PASSED, WRONG_CHECKSUM, NO_PLAN_YET, NO_ROOM };

struct map SECTION("maps") configuration_table = {ARRAY, 4, sizeof(struct configuration), 1, MAPPABLE};
struct map SECTION("maps") addresses = {HASH, sizeof(struct address_key), sizeof(struct address), 4096, 0};
struct map SECTION("maps") questions = {
    HASH, sizeof(struct question_key), sizeof(struct question), 0, NO_PREALLOCATION};
struct map SECTION("maps") variants = {ARRAY, 4, sizeof(struct variant), 0, MAPPABLE};
// By plan: its generation (upper half) and where it begins in orders (lower half); 0 if there is no plan
struct map SECTION("maps") plans = {ARRAY, 4, 8, 0, MAPPABLE};
// Plans. The upper half of each word is the plan's generation. The lower halves: length, repeat_from, stride, members
struct map SECTION("maps") orders = {ARRAY, 4, 8, 0, MAPPABLE};
struct map SECTION("maps") positions = {PER_CPU_ARRAY, 4, sizeof(struct position), 0, 0};
struct map SECTION("maps") counters = {ARRAY, 4, 8, 0, MAPPABLE};
// Of the rate limit: second (upper half) and responses in it (lower half)
struct map SECTION("maps") limit_slots = {ARRAY, 4, 8, LIMIT_SLOTS, 0};
struct map SECTION("maps") exempt_networks = {LPM_TRIE, sizeof(struct network_key), 4, 4096, NO_PREALLOCATION};

INLINE u64 *counter(const struct configuration *configuration, u32 number) {
    u32 at = processor_id() * configuration->counters + number;
    return map_lookup(&counters, &at);
}

INLINE void count(const struct configuration *configuration, u32 number) {
    u64 *found = counter(configuration, number);
    if (found) {
        *found += 1; // no other CPU has this counter
    }
}
