// The kernel that copies bytes.
#include "common.cuh"

__device__ inline void copy_singly(const unsigned char *from, unsigned char *to, u64 start, u64 end) {
    for (u64 i = start + grid_thread(); i < end; i += grid_threads()) {
        to[i] = from[i];
    }
}

// Copies memory that the host can also access: the driver's own copy would block the caller.
//
// Moves 16 bytes at a time, except at the ends, if both addresses have the same remainder modulo 16; otherwise single bytes.
extern "C" __global__ void copy_bytes(const unsigned char *from, unsigned char *to, u64 n,
                                      unsigned *flags) {
    constexpr u64 VECTOR = sizeof(uint4);
    const u64 past = (u64)to % VECTOR;
    const u64 boundary = (u64)from % VECTOR == past ? (VECTOR - past) % VECTOR : n;
    const u64 head = boundary < n ? boundary : n;
    const u64 vectors = (n - head) / VECTOR;
    copy_singly(from, to, 0, head);
    const uint4 *from_vectors = reinterpret_cast<const uint4 *>(from + head);
    uint4 *to_vectors = reinterpret_cast<uint4 *>(to + head);
    for (u64 i = grid_thread(); i < vectors; i += grid_threads()) {
        to_vectors[i] = from_vectors[i];
    }
    copy_singly(from, to, head + vectors * VECTOR, n);
    signal_completion(flags);
}
