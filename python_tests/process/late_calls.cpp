// Makes calls in destructors of thread-local and global C++ objects.
#include "gpuvec.h"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <vector>

static std::size_t length;

static void call() {
    // Never freed: a destructor must not free memory that a later destructor uses.
    static const std::vector<float> &ones = *new std::vector<float>(length, 1.0F);
    std::vector<float> sums(length);
    bool is_right =
        vector_add(ones.data(), ones.data(), sums.data(), length) == GPUVEC_OK;
    for (float sum : sums) {
        is_right = is_right && sum == 2;
    }
    if (!is_right) {
        std::printf("wrong: %s\n", gpuvec_last_error());
        std::fflush(stdout);
        _exit(1);
    }
}

struct Caller {
    bool is_used = false;
    ~Caller() {
        if (is_used) {
            call();
        }
    }
};

static Caller global;
static thread_local Caller local;

// late_calls WHAT LENGTH: thread, main or global; the elements of the arrays.
int main(int count, char **argument) {
    if (count != 3) {
        return 2;
    }
    char what = argument[1][0];
    length = std::strtoull(argument[2], nullptr, 10);
    if (what == 't') {
        // The destructor of the first is called before the library's own, that of the second after.
        std::thread([] { local.is_used = true, call(); }).join();
        std::thread([] { call(), local.is_used = true; }).join();
        std::thread([] { local.is_used = true; }).join();
    }
    local.is_used = what == 'm';
    global.is_used = what == 'g';
    return 0;
}
