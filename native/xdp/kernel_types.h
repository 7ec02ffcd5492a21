// The types, constants and helper functions of the Linux kernel that answers.c uses. Headers of the kernel or of libbpf
// are not needed to build it. All numbers are part of the kernel's stable interface.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
// A word at any address. __builtin_memcpy would read single bytes
#define WORD(address) (*(u64 *)(address))
#define SHORT(address) (*(u16 *)(address))

// Makes the compiler forget what it knows about a value, so that it keeps the checks that the verifier needs
#define OPAQUE(value) __asm__ volatile("" : "+r"(value))
#define INLINE static inline __attribute__((always_inline))

// Verdicts of an XDP program
enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX };

// Types and flags of maps
enum { HASH = 1, ARRAY = 2, PER_CPU_ARRAY = 6, LPM_TRIE = 11 };
enum { NO_PREALLOCATION = 1 << 0, MAPPABLE = 1 << 10 };

struct xdp_context {
    u32 data;
    u32 data_end;
    u32 data_meta;
    u32 ingress_interface;
    u32 rx_queue_index;
    u32 egress_interface;
};

// A map, in the section "maps". lbdns/server/xdp/object_file.py reads these definitions. A size of 0 is set at loading.
struct map {
    u32 type;
    u32 key_size;
    u32 value_size;
    u32 max_entries;
    u32 flags;
};

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const monotonic_ns)(void) = (void *)5;
static u32 (*const processor_id)(void) = (void *)8;
static long (*const adjust_head)(struct xdp_context *context, int delta) = (void *)44;
static long (*const adjust_tail)(struct xdp_context *context, int delta) = (void *)65;

// The headers need no padding. They are read at any offset, since processors with XDP allow it.
struct ethernet {
    u16 destination[3];
    u16 source[3];
    u16 type;
};

struct vlan_tag {
    u16 control; // priority, drop eligible indicator, id
    u16 type;
};

struct ipv4 {
    u8 version_and_length;
    u8 service;
    u16 total_length;
    u16 id;
    u16 fragment;
    u8 time_to_live;
    u8 protocol;
    u16 checksum;
    u32 source;
    u32 destination;
};

struct ipv6 {
    u32 version_and_label;
    u16 payload_length;
    u8 next_header;
    u8 hop_limit;
    u32 source[4];
    u32 destination[4];
};

struct udp {
    u16 source;
    u16 destination;
    u16 length;
    u16 checksum;
};

struct dns {
    u16 id;
    u8 head[10]; // flags and section counts
};
