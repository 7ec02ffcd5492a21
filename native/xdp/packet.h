// Reads the headers of a packet up to UDP.

#pragma once

#include "checksum.h"
#include "tables.h"

#define NETWORK_ORDER(x) ((u16)((((x) & 0xff) << 8) | ((x) >> 8)))

// What the headers of a packet say
struct packet {
    u64 client[2]; // its address
    u64 sum;        // the part of the UDP checksum that queries and answers share: the pseudo header's addresses
    u32 family;
    u32 header_at; // of IP
    u32 dns_at;
    u32 udp_length;
};

INLINE void *start(struct xdp_context *context) {
    return (void *)(long)context->data;
}

INLINE void *end(struct xdp_context *context) {
    return (void *)(long)context->data_end;
}

INLINE long packet_length(struct xdp_context *context) {
    long length = end(context) - start(context);
    OPAQUE(length); // no other arithmetic with pointers
    return length;
}

// Return the value of some lowest bits, whose number `mask` gives. What later checks tell the verifier about the value
// doesn't change what it knows about the result. Else it would follow each length separately, and give up.
INLINE u64 unrelated(u64 value, u64 mask) {
    OPAQUE(value);
    value &= mask;
    OPAQUE(value);
    return value;
}

INLINE int read_ipv4(struct xdp_context *context, struct packet *packet, struct address_key *to) {
    struct ipv4 *ip = start(context) + packet->header_at;
    if ((void *)(ip + 1) > end(context)) {
        return 0;
    }
    u32 length = NETWORK_ORDER(ip->total_length);
    u32 first = ip->source & 0xff;
    if (ip->version_and_length != 0x45 || ip->fragment & NETWORK_ORDER(0xbfff) || ip->protocol != 17) {
        return 0;
    }
    if (first == 0 || first == 127 || first >= 224 || ip->source == ip->destination || sum_of(ip, 5) != 0xffff) {
        return 0;
    }
    packet->udp_length = length - sizeof(*ip);
    packet->dns_at = packet->header_at + sizeof(*ip) + sizeof(struct udp);
    packet->family = to->family = 4;
    *(u32 *)to->address = ip->destination;
    packet->client[0] = ip->source;
    packet->sum = (u64)ip->source + ip->destination;
    return length >= sizeof(*ip);
}

INLINE int read_ipv6(struct xdp_context *context, struct packet *packet, struct address_key *to) {
    struct ipv6 *ip = start(context) + packet->header_at;
    if ((void *)(ip + 1) > end(context)) {
        return 0;
    }
    if ((ip->version_and_label & 0xf0) != 0x60 || ip->next_header != 17) {
        return 0;
    }
    u64 source[2] = {WORD(ip->source), WORD(ip->source + 2)};
    u64 destination[2] = {WORD(ip->destination), WORD(ip->destination + 2)};
    // No multicast, loopback, unspecified or IPv4-mapped source
    if ((source[0] & 0xff) == 0xff || source[0] == 0 || (source[0] == destination[0] && source[1] == destination[1])) {
        return 0;
    }
    packet->udp_length = NETWORK_ORDER(ip->payload_length);
    packet->dns_at = packet->header_at + sizeof(*ip) + sizeof(struct udp);
    packet->family = to->family = 6;
    WORD(to->address) = destination[0];
    WORD(to->address + 8) = destination[1];
    packet->client[0] = source[0];
    packet->client[1] = source[1];
    packet->sum = halves(source[0]) + halves(source[1]) + halves(destination[0]) + halves(destination[1]);
    return 1;
}

// Read the headers below UDP. Return 0 if the packet isn't simple.
INLINE int read_headers(struct xdp_context *context, struct packet *packet, struct address_key *to) {
    struct ethernet *ethernet = start(context);
    // A group's address as the sender: every host would get the answer
    if ((void *)(ethernet + 1) > end(context) || ethernet->source[0] & 1) {
        return 0;
    }
    u16 type = ethernet->type;
    packet->header_at = sizeof(*ethernet);
    if (type == NETWORK_ORDER(0x8100)) {
        struct vlan_tag *tag = (void *)(ethernet + 1);
        if ((void *)(tag + 1) > end(context)) {
            return 0;
        }
        to->vlan = NETWORK_ORDER(tag->control) & 0xfff;
        if (to->vlan == 0) {
            return 0;
        }
        type = tag->type;
        packet->header_at += sizeof(*tag);
    }
    to->interface = context->ingress_interface;
    if (type == NETWORK_ORDER(0x0800)) {
        return read_ipv4(context, packet, to);
    }
    return type == NETWORK_ORDER(0x86dd) && read_ipv6(context, packet, to);
}

// Return whether lbdns answers on the address, port, interface and VLAN that the packet was sent to.
INLINE int is_ours(struct xdp_context *context, const struct packet *packet, struct address_key *to) {
    struct udp *udp = start(context) + packet->dns_at - sizeof(struct udp);
    if ((void *)(udp + 1) > end(context) || udp->source == 0) { // no socket can send to port 0
        return 0;
    }
    to->port = udp->destination;
    const struct address *ours = map_lookup(&addresses, to);
    struct ethernet *ethernet = start(context);
    if (!ours || (void *)(ethernet + 1) > end(context)) {
        return 0;
    }
    const u16 *mac = ethernet->destination;
    return mac[0] == ours->mac[0] && mac[1] == ours->mac[1] && mac[2] == ours->mac[2];
}
