/* The header as C99 and as C++17: included twice, and every function that it declares linked. */
#include "gpuvec.h"
#include "gpuvec.h"

typedef void (*function)(void);

static const function FUNCTIONS[] = {
    (function)vector_add,
    (function)add_arrays,
    (function)dot_product,
    (function)pinned_alloc,
    (function)pinned_free,
    (function)gpuvec_last_error,
    (function)gpuvec_status_string,
    (function)gpuvec_set_placement,
    (function)gpuvec_get_placement,
    (function)gpuvec_why_cpu,
    (function)gpuvec_last_run,
    (function)gpuvec_init,
    (function)gpuvec_device_count,
    (function)gpuvec_device_name,
    (function)gpuvec_version,
    (function)gpuvec_abi_version,
};

int main(void)
{
    const gpuvec_status ok = GPUVEC_OK;
    const gpuvec_place place = GPUVEC_PLACE_AUTO;
    const gpuvec_backend backend = GPUVEC_BACKEND_NONE;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        if (FUNCTIONS[i] == 0) {
            return 1;
        }
    }
    return ok + place + backend;
}
