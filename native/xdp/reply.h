// Turns a query into its answer, in place.

#pragma once

#include "query.h"

#define LONGEST_HEADERS 78 // bytes before the question: Ethernet with a VLAN tag, IPv6, UDP and DNS

// Write an address header and the Ethernet header of the answer. The sender and the receiver change places.
INLINE int write_headers(struct xdp_context *context, const struct configuration *configuration,
                         const struct packet *packet, u64 udp_length) {
    struct ethernet *ethernet = start(context);
    if ((void *)(ethernet + 1) > end(context)) {
        return 0;
    }
#pragma unroll
    for (int n = 0; n < 3; n++) {
        u16 part = ethernet->destination[n];
        ethernet->destination[n] = ethernet->source[n];
        ethernet->source[n] = part;
    }
    void *header = start(context) + packet->header_at;
    if (packet->family == 4) {
        struct ipv4 *ip = header;
        if ((void *)(ip + 1) > end(context)) {
            return 0;
        }
        u32 source = ip->source;
        ip->service = 0;
        ip->total_length = NETWORK_ORDER(udp_length + sizeof(*ip));
        ip->id = 0;
        ip->fragment = configuration->fragment;
        ip->time_to_live = configuration->time_to_live;
        ip->source = ip->destination;
        ip->destination = source;
        ip->checksum = 0;
        ip->checksum = ~sum_of(ip, 5);
        return 1;
    }
    struct ipv6 *ip = header;
    if ((void *)(ip + 1) > end(context)) {
        return 0;
    }
    u64 source[2] = {WORD(ip->source), WORD(ip->source + 2)};
    WORD(ip->source) = WORD(ip->destination);
    WORD(ip->source + 2) = WORD(ip->destination + 2);
    WORD(ip->destination) = source[0];
    WORD(ip->destination + 2) = source[1];
    ip->version_and_label = 0x60;
    ip->payload_length = NETWORK_ORDER(udp_length);
    ip->hop_limit = configuration->hop_limit;
    return 1;
}

// Copy the tail of a variant to offset `at` of the packet, 8 bytes at a time.
INLINE int write_tail(struct xdp_context *context, const struct variant *variant, u64 at, u64 length) {
    if (length == 0) {
        return 1;
    }
    // The last 8 bytes, of which some may be written twice
    u64 last = unrelated(length - 8, 511), last_at = at + last;
    OPAQUE(last_at);
    if (length > LONGEST_TAIL || last > LONGEST_TAIL - 8) {
        return 0;
    }
    void *to = start(context) + at;
    for (u64 done = 0; done < LONGEST_TAIL; done += 8) {
        if (done + 8 > length) {
            break;
        }
        if (to + done + 8 > end(context)) {
            return 0;
        }
        *(u64 *)(to + done) = *(const u64 *)(variant->tail + done);
    }
    to = start(context) + last_at;
    if (to + 8 > end(context)) {
        return 0;
    }
    *(u64 *)to = *(const u64 *)(variant->tail + last);
    return 1;
}

// Make the packet longer at its beginning, and move its first `length` bytes there. Return 0 if it has no room there.
//
// Some drivers leave hardly any room behind a packet, such as veth since Linux 6.8, but all leave some before it.
INLINE int make_room(struct xdp_context *context, u64 length, long added) {
    if (added <= 0 || adjust_head(context, -added)) {
        return 0;
    }
    u64 from_at = unrelated(added, 511), last_at = unrelated(length - 8, 255), last_from = from_at + last_at;
    OPAQUE(last_from);
    void *to = start(context), *from = start(context) + from_at, *last = start(context) + last_from;
    if (last + 8 > end(context)) {
        return 0;
    }
    u64 last_word = *(u64 *)last; // read now, because the loop may overwrite it
    for (u64 done = 0; done < LONGEST_HEADERS + 8 * WORDS; done += 8) {
        if (done + 8 > length) {
            break;
        }
        if (from + done + 8 > end(context) || to + done + 8 > end(context)) {
            return 0;
        }
        *(u64 *)(to + done) = *(u64 *)(from + done);
    }
    last = start(context) + last_at;
    if (last + 8 > end(context)) {
        return 0;
    }
    *(u64 *)last = last_word;
    return 1;
}

// Turn the query into the answer. Return XDP_PASS, with the packet unchanged, if the packet can't get longer.
INLINE int write_answer(struct xdp_context *context, const struct configuration *configuration,
                        const struct packet *packet, u64 question_length, u64 question_sum,
                        const struct variant *variant) {
    u64 length = variant->length;
    u64 at = packet->dns_at;
    u64 tail_at = at + HEADER + question_length;
    if (length > LONGEST_TAIL) {
        return XDP_PASS;
    }
    long added = (long)(tail_at + length) - packet_length(context);
    if (adjust_tail(context, added) && !make_room(context, tail_at, added)) {
        count(configuration, NO_ROOM);
        return XDP_PASS;
    }
    u64 udp_length = sizeof(struct udp) + HEADER + question_length + length;
    struct udp *udp = start(context) + at - sizeof(struct udp);
    struct dns *dns = (void *)(udp + 1);
    if ((void *)(dns + 1) > end(context)) {
        return XDP_ABORTED;
    }
    u16 port = udp->source;
    udp->source = udp->destination;
    udp->destination = port;
    udp->length = NETWORK_ORDER(udp_length);
    WORD(dns->head) = WORD(variant->head);
    SHORT(dns->head + 8) = SHORT(variant->head + 8);
    u64 sum = packet->sum + NETWORK_ORDER(17) + udp->length + udp->length + udp->source + udp->destination;
    sum += dns->id + variant->head_sum + question_sum;
    sum += tail_at & 1 ? swapped(variant->tail_sum) : variant->tail_sum;
    u16 checksum = ~folded(sum);
    udp->checksum = checksum ? checksum : 0xffff;
    if (!write_headers(context, configuration, packet, udp_length) ||
        !write_tail(context, variant, tail_at, length)) {
        return XDP_ABORTED; // can't happen: the packet has been read up to here before
    }
    return XDP_TX;
}
