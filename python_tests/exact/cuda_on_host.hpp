// CUDA for kernels/*.cu on the host: the functions that they call, and the threads of a block.
//
// The threads of a block are fibers of one thread. They run in random order from one barrier, or operation of a warp, to
// the next, and now and then give way at an atomic operation; blocks run one after the other in random order. `launch`
// says when a block cannot go on: its threads wait at different barriers.
#pragma once
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <setjmp.h>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)

struct Dimension {
    unsigned x;
};
static Dimension threadIdx, blockIdx, blockDim{256}, gridDim;

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

namespace {

// The least and the greatest of values of two types.
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
    return std::min<std::common_type_t<A, B>>(a, b);
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
    return std::max<std::common_type_t<A, B>>(a, b);
}

template <class To, class From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

// The result of an operation that rounds toward zero.
template <class Operation>
double toward_zero(Operation operation) {
    fesetround(FE_TOWARDZERO);
    const volatile double result = operation();
    fesetround(FE_TONEAREST);
    return result;
}

typedef unsigned long long word;

float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
float __int_as_float(int x) { return bits_as<float>(x); }
unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
float __uint_as_float(unsigned x) { return bits_as<float>(x); }
long long __double_as_longlong(double x) { return bits_as<long long>(x); }
double __longlong_as_double(long long x) { return bits_as<double>(x); }
int __double2hiint(double x) { return static_cast<int>(bits_as<long long>(x) >> 32); }
double __hiloint2double(int high, int low) {
    return bits_as<double>(static_cast<word>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low));
}
int __float_as_int(float x) { return bits_as<int>(x); }
int __ffs(int x) { return __builtin_ffs(x); }
int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(x); }
word __umul64hi(word x, word y) { return static_cast<unsigned __int128>(x) * y >> 64; }
unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (static_cast<word>(high) << 32 | low) << (shift & 31) >> 32;
}
double __ull2double_rn(word x) { return static_cast<double>(x); }
double __ull2double_rz(word x) {
    volatile word exact = x;
    return toward_zero([&] { return static_cast<double>(exact); });
}
word __double2ull_rz(double x) { return static_cast<word>(x); }
long long __double2ll_rn(double x) { return std::llrint(x); }
float __double2float_rn(double x) { return static_cast<float>(x); }
double __dsqrt_rz(double x) {
    volatile double exact = x;
    return toward_zero([&] { return std::sqrt(exact); });
}
double __dadd_rn(double x, double y) { return x + y; }
double __dsub_rn(double x, double y) { return x - y; }
double __dmul_rn(double x, double y) { return x * y; }
double __ddiv_rn(double x, double y) { return x / y; }
double __drcp_rn(double x) { return 1 / x; }
double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }

constexpr unsigned THREADS = 256, LANES = 32;

// A barrier of some threads, which counts how often all have arrived; and the values that they hand over, in turns of two
// places, so that no thread overwrites a value that another one has yet to read.
struct Barrier {
    unsigned arrived, times;
    word values[2][THREADS];
};

struct {
    ucontext_t first[THREADS];
    jmp_buf scheduler, fibers[THREADS];
    std::vector<char> stacks[THREADS];
    Barrier block, warps[THREADS / LANES];
    bool has_begun[THREADS], is_finished[THREADS], moves;
    std::mt19937 random;
    std::function<void()> kernel;
} machine;

// Switches to the scheduler, and back later. (`swapcontext` would make system calls.)
void give_way() {
    if (_setjmp(machine.fibers[threadIdx.x]) == 0) {
        _longjmp(machine.scheduler, 1);
    }
}

void run_fiber() {
    machine.kernel();
    machine.is_finished[threadIdx.x] = machine.moves = true;
    _longjmp(machine.scheduler, 1);
}

void resume(unsigned thread) {
    threadIdx.x = thread;
    if (_setjmp(machine.scheduler) != 0) {
        return;
    }
    if (std::exchange(machine.has_begun[thread], true)) {
        _longjmp(machine.fibers[thread], 1);
    }
    setcontext(&machine.first[thread]);
}

void arrive(Barrier &barrier, unsigned threads) {
    const unsigned times = barrier.times;
    machine.moves = true;
    if (++barrier.arrived == threads) {
        barrier.arrived = 0;
        barrier.times++;
        return;
    }
    while (barrier.times == times) {
        give_way();
    }
}

// Hands a value to `threads` neighbouring threads, the calling one's warp or block. Returns theirs.
const word *exchange(Barrier &barrier, unsigned threads, word value) {
    word *const values = barrier.values[barrier.times % 2];
    values[threadIdx.x % threads] = value;
    arrive(barrier, threads);
    return values;
}

Barrier &warp() { return machine.warps[threadIdx.x / LANES]; }
void __syncthreads() { arrive(machine.block, THREADS); }
void __syncwarp() { arrive(warp(), LANES); }
bool any(Barrier &barrier, unsigned threads, bool is) {
    const word *const values = exchange(barrier, threads, is);
    return std::any_of(values, values + threads, [](word value) { return value != 0; });
}
int __syncthreads_or(bool is) { return any(machine.block, THREADS, is); }
int __syncthreads_and(bool is) { return !any(machine.block, THREADS, !is); }
bool __any_sync(unsigned, bool is) { return any(warp(), LANES, is); }
bool __all_sync(unsigned, bool is) { return !any(warp(), LANES, !is); }
template <class T>
T shuffled(T value, unsigned from) {
    word bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = exchange(warp(), LANES, bits)[from];
    memcpy(&value, &bits, sizeof(T));
    return value;
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int bits) {
    return shuffled(value, threadIdx.x % LANES ^ bits);
}
template <class T>
T __shfl_sync(unsigned, T value, int from) {
    return shuffled(value, from);
}
void __threadfence() {}
void __threadfence_system() {}

void sometimes_give_way() {
    if (machine.random() % 64 == 0) {
        machine.moves = true;
        give_way();
    }
}
template <class T>
T atomicExch(T *place, std::common_type_t<T> value) {
    sometimes_give_way();
    return std::exchange(*place, value);
}
template <class T>
T atomicAdd(T *place, std::common_type_t<T> value) {
    typedef std::make_unsigned_t<T> U;
    sometimes_give_way();
    return std::exchange(*place, static_cast<T>(static_cast<U>(*place) + static_cast<U>(value)));
}
int atomicMin(int *place, int value) { return std::exchange(*place, std::min(*place, value)); }
template <class T>
T atomicMax(T *place, std::common_type_t<T> value) {
    sometimes_give_way();
    return std::exchange(*place, std::max(*place, value));
}
word atomicOr(word *place, word bits) { return std::exchange(*place, *place | bits); }
word atomicCAS(word *place, word expected, word value) {
    sometimes_give_way();
    return std::exchange(*place, *place == expected ? value : *place);
}
template <class T>
T __ldcg(const T *place) {
    return *place;
}

// Runs all blocks of a grid; returns whether all threads have returned.
bool launch(unsigned blocks, unsigned seed, std::function<void()> kernel) {
    machine.random.seed(seed);
    machine.kernel = std::move(kernel);
    gridDim.x = blocks;
    std::vector<unsigned> numbers(blocks);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), machine.random);
    for (const unsigned number : numbers) {
        std::vector<unsigned> threads(THREADS);
        std::iota(threads.begin(), threads.end(), 0);
        for (const unsigned thread : threads) {
            ucontext_t &first = machine.first[thread];
            machine.stacks[thread].resize(64 << 10);
            machine.has_begun[thread] = machine.is_finished[thread] = false;
            getcontext(&first);
            first.uc_stack.ss_sp = machine.stacks[thread].data();
            first.uc_stack.ss_size = machine.stacks[thread].size();
            makecontext(&first, run_fiber, 0);
        }
        blockIdx.x = number;
        machine.block.arrived = 0;
        std::for_each_n(machine.warps, THREADS / LANES, [](Barrier &warp) { warp.arrived = 0; });
        while (!threads.empty()) {
            machine.moves = false;
            std::shuffle(threads.begin(), threads.end(), machine.random);
            for (const unsigned thread : threads) {
                resume(thread);
            }
            const auto is_finished = [](unsigned thread) { return machine.is_finished[thread]; };
            threads.erase(std::remove_if(threads.begin(), threads.end(), is_finished), threads.end());
            if (!machine.moves) {
                return false;
            }
        }
    }
    return true;
}

}  // namespace
