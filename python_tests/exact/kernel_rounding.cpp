// An entry for tests to kernels/rounding.cuh on the host.
#include "cuda_on_host.hpp"
#include "rounding.cuh"

namespace {

u64 finished(exact::Leading sum, int what, u64 n, bool is_single) {
    if (what == 1) {
        sum.divide(n);
    } else if (what == 2) {
        sum.root();
    }
    return is_single ? exact::Format<float>::bits(sum.rounded<float>())
                     : exact::Format<double>::bits(sum.rounded<double>());
}

}  // namespace

// The encoding of an integer of three words times 2^low (what = 0), divided by n (1), or its root (2).
extern "C" u64 of_words(const u64 *words, int low, int what, u64 n, bool is_single) {
    exact::Wide<3> integer(0);
    std::copy_n(words, 3, integer.words);
    return finished(exact::leading(integer, low), what, n, is_single);
}

// The same of digits, which it overwrites.
extern "C" u64 of_digits(long long *digits, int count, int low, int what, u64 n, bool is_single) {
    return finished(exact::leading(digits, count, low), what, n, is_single);
}

// The same of zero (which = 0), NaN (1), infinity (2) and its negative (3).
extern "C" u64 of_special(int which, int what, u64 n, bool is_single) {
    const exact::Leading numbers[] = {exact::Leading::zero(), exact::Leading::nan(),
                                      exact::Leading::infinity(false), exact::Leading::infinity(true)};
    return finished(numbers[which], what, n, is_single);
}
