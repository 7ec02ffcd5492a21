// Answers common DNS queries in the kernel, before a socket sees them: an XDP program.
//
// The answers are those of the fast path in native/src/fast_path.rs, byte for byte. Every packet that isn't exactly such
// a query goes on to the sockets unchanged. docs/architecture.md says which queries are answered. The program assumes a
// little-endian processor, and uses no helper function that Linux 5.10 lacks.

#include "plan.h"
#include "query.h"
#include "rate_limit.h"
#include "reply.h"
#include "tables.h"

// Answer a packet that was sent to lbdns.
INLINE int answer(struct xdp_context *context, const struct configuration *configuration,
                  const struct packet *packet) {
    u64 sum = packet->sum, question_sum = 0;
    u32 recursion, has_opt, member = 0;
    struct question_key key;
    u64 length = read_dns_header(context, packet, &recursion, &has_opt, &sum);
    OPAQUE(length);
    if (length < SHORTEST_QUESTION || length > 8 * WORDS) {
        return XDP_PASS;
    }
    u64 whole_length = length;
    length = unrelated(length, 127);
    if (!read_question(context, packet->dns_at, whole_length, &key, &question_sum)) {
        return XDP_PASS;
    }
    u64 kind = recursion;
    if (has_opt) {
        int form = read_opt(context, packet->dns_at + HEADER + length, &sum);
        if (!form) {
            return XDP_PASS;
        }
        kind += form;
    }
    OPAQUE(kind);
    const struct question *question = map_lookup(&questions, &key);
    if (!question || kind >= KINDS || !question->variants[kind]) {
        return XDP_PASS;
    }
    if (!is_intact(context, packet, sum + question_sum)) {
        count(configuration, WRONG_CHECKSUM);
        return XDP_PASS;
    }
    u64 now = monotonic_ns();
    if (now >= configuration->lease) {
        return XDP_PASS;
    }
    u32 at = question->variants[kind];
    u32 over = responses_over_limit(configuration, packet->family, packet->client, question->counter, now);
    if (over && !(configuration->slip && over % configuration->slip == 0)) {
        count(configuration, LIMIT_DROPPED);
        return XDP_DROP;
    }
    if (over) {
        at = configuration->truncated[kind];
    } else if (question->plan != NO_PLAN) {
        if (!select_member(question->plan, &member) || member >= question->members) {
            count(configuration, NO_PLAN_YET);
            return XDP_PASS;
        }
        at += member;
    }
    const struct variant *variant = map_lookup(&variants, &at);
    if (!variant) {
        return XDP_PASS;
    }
    int verdict = write_answer(context, configuration, packet, length, question_sum, variant);
    if (verdict == XDP_TX) {
        count(configuration, over ? LIMIT_CUT : ANSWERED);
        if (!over) {
            count(configuration, question->counter);
            if (question->plan != NO_PLAN) {
                count(configuration, question->member_counters + member);
            }
        }
    }
    return verdict;
}

SECTION("xdp") int answer_queries(struct xdp_context *context) {
    u32 first = 0;
    const struct configuration *configuration = map_lookup(&configuration_table, &first);
    struct packet packet = {};
    struct address_key to = {};
    if (!configuration || !read_headers(context, &packet, &to) || !is_ours(context, &packet, &to)) {
        return XDP_PASS;
    }
    int verdict = answer(context, configuration, &packet);
    if (verdict == XDP_PASS) {
        count(configuration, PASSED);
    }
    return verdict;
}

char license_name[] SECTION("license") = "MIT";
