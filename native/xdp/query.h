// Reads the DNS message of a packet.

#pragma once

#include "packet.h"

#define HEADER ((int)sizeof(struct dns))
#define OPT 11 // bytes: an OPT record without options
#define SHORTEST_QUESTION 5

// Return the number of bytes in the question, or 0 if the message isn't a common query. `opt`: whether it has an OPT.
INLINE u64 read_dns_header(struct xdp_context *context, const struct packet *packet, u32 *recursion, u32 *opt,
                           u64 *sum) {
    struct udp *udp = start(context) + packet->dns_at - sizeof(struct udp);
    struct dns *dns = (void *)(udp + 1);
    if ((void *)(dns + 1) > end(context) || NETWORK_ORDER(udp->length) != packet->udp_length) {
        return 0;
    }
    u64 head = WORD(dns->head);
    u16 additional = SHORT(dns->head + 8);
    // All but RD, AD and CD: no flags, one question, no answer, no authority
    if ((head & 0xffffffffffffcffeull) != 0x01000000ull || additional & NETWORK_ORDER(0xfffe)) {
        return 0;
    }
    *recursion = head & 1;
    *opt = additional != 0;
    *sum += NETWORK_ORDER(17) + udp->length + udp->length + udp->source + udp->destination;
    *sum += dns->id + halves(head) + additional;
    u32 around = sizeof(struct udp) + HEADER + (*opt ? OPT : 0);
    u32 length = packet->udp_length - around;
    int fits = packet->udp_length >= around + SHORTEST_QUESTION && length <= 8 * WORDS;
    // Only then is the whole datagram in the packet
    fits = fits && packet_length(context) >= (long)(packet->dns_at - sizeof(struct udp) + packet->udp_length);
    return fits ? length : 0;
}

INLINE u64 lower_case(u64 word) {
    u64 low = word & 0x7f7f7f7f7f7f7f7full;
    u64 above_z = low + 0x2525252525252525ull;   // 0x7f - 'Z'
    u64 from_a = low + 0x3f3f3f3f3f3f3f3full;    // 0x80 - 'A'
    u64 letters = (from_a ^ above_z) & ~word & 0x8080808080808080ull;
    return word | (letters >> 2);
}

// Copy the question in lower case to `key`, and add its bytes to `sum`. Return 0 if it isn't in the packet.
INLINE int read_question(struct xdp_context *context, u32 at, u64 length, struct question_key *key, u64 *sum) {
    void *question = start(context) + at + HEADER;
    void *last = start(context) + at + HEADER - 8 + length; // the header lies before the question: 8 bytes can be read
    if (last + 8 > end(context)) {
        return 0;
    }
    u64 rest = *(u64 *)last >> (8 * (-length & 7));
    key->length = length;
#pragma unroll
    for (u32 n = 0; n < WORDS; n++) {
        u64 word = 0;
        if (length >= 8 * n + 8) {
            if (question + 8 * n + 8 > end(context)) {
                return 0;
            }
            word = *(u64 *)(question + 8 * n);
        } else if (length > 8 * n) {
            word = rest;
        }
        *sum += halves(word);
        key->words[n] = lower_case(word);
    }
    return 1;
}

// Return the kind of an OPT record: 2, or 4 with DO; 0 if it has options or anything unusual. Add its bytes to `sum`.
INLINE int read_opt(struct xdp_context *context, u32 at, u64 *sum) {
    void *opt = start(context) + at;
    if (opt + OPT > end(context)) {
        return 0;
    }
    u64 first = *(u64 *)opt;
    u32 last = *(u32 *)(opt + 7) >> 8;
    // All but the payload size and DO: the root name, the type, the upper RCODE, the version, the flags, no options
    if ((first & 0x7fffff0000ffffffull) != 0x290000 || last) {
        return 0;
    }
    u64 own = folded(halves(first));
    *sum += at & 1 ? swapped(own) : own;
    return 2 + 2 * (first >> 63);
}

// Return whether the checksum is right; with IPv4, a sender may leave it out.
INLINE int is_intact(struct xdp_context *context, const struct packet *packet, u64 sum) {
    struct udp *udp = start(context) + packet->dns_at - sizeof(struct udp);
    if ((void *)(udp + 1) > end(context)) {
        return 0;
    }
    if (udp->checksum == 0) {
        return packet->family == 4;
    }
    return folded(sum + udp->checksum) == 0xffff;
}
