/* Includes the header twice, as C and as C++, and links every function that it declares. */
#include "gpuvec.h"
#include "gpuvec.h"

typedef void (*function)(void);

static const function FUNCTIONS[] = {
    /* Written by build.rs, from the header: */
    (function)vector_add,
    (function)add_arrays,
    (function)dot_product,
    (function)pinned_alloc,
    (function)pinned_free,
    (function)gpuvec_add_f32,
    (function)gpuvec_add_f64,
    (function)gpuvec_add_i32,
    (function)gpuvec_add_i64,
    (function)gpuvec_sub_f32,
    (function)gpuvec_sub_f64,
    (function)gpuvec_sub_i32,
    (function)gpuvec_sub_i64,
    (function)gpuvec_mul_f32,
    (function)gpuvec_mul_f64,
    (function)gpuvec_mul_i32,
    (function)gpuvec_mul_i64,
    (function)gpuvec_div_f32,
    (function)gpuvec_div_f64,
    (function)gpuvec_scale_f32,
    (function)gpuvec_scale_f64,
    (function)gpuvec_axpy_f32,
    (function)gpuvec_axpy_f64,
    (function)gpuvec_dot_f32,
    (function)gpuvec_dot_f64,
    (function)gpuvec_dot_i32,
    (function)gpuvec_dot_i64,
    (function)gpuvec_sum_f32,
    (function)gpuvec_sum_f64,
    (function)gpuvec_sum_i32,
    (function)gpuvec_sum_i64,
    (function)gpuvec_min_f32,
    (function)gpuvec_min_f64,
    (function)gpuvec_min_i32,
    (function)gpuvec_min_i64,
    (function)gpuvec_max_f32,
    (function)gpuvec_max_f64,
    (function)gpuvec_max_i32,
    (function)gpuvec_max_i64,
    (function)gpuvec_accumulator_create,
    (function)gpuvec_accumulator_create_nd,
    (function)gpuvec_accumulator_add,
    (function)gpuvec_accumulator_add_nd,
    (function)gpuvec_accumulator_add_by,
    (function)gpuvec_accumulator_merge,
    (function)gpuvec_accumulator_value,
    (function)gpuvec_accumulator_bytes,
    (function)gpuvec_accumulator_serialize,
    (function)gpuvec_accumulator_deserialize,
    (function)gpuvec_accumulator_deserialize_nd,
    (function)gpuvec_accumulator_destroy,
    (function)gpuvec_expr_compile,
    (function)gpuvec_expr_compile_by,
    (function)gpuvec_expr_run_by,
    (function)gpuvec_expr_run,
    (function)gpuvec_expr_run_outputs,
    (function)gpuvec_expr_run_nd,
    (function)gpuvec_expr_run_dlpack,
    (function)gpuvec_expr_prepare,
    (function)gpuvec_expr_num_outputs,
    (function)gpuvec_expr_output_type,
    (function)gpuvec_expr_is_reduction,
    (function)gpuvec_expr_output_type_at,
    (function)gpuvec_expr_is_reduction_at,
    (function)gpuvec_expr_text,
    (function)gpuvec_expr_destroy,
    (function)gpuvec_pinned_alloc,
    (function)gpuvec_pinned_free,
    (function)gpuvec_device_alloc,
    (function)gpuvec_device_free,
    (function)gpuvec_device_of,
    (function)gpuvec_host_register,
    (function)gpuvec_host_unregister,
    (function)gpuvec_copy,
    (function)gpuvec_memory,
    (function)gpuvec_trim,
    (function)gpuvec_stream_create,
    (function)gpuvec_stream_from_native,
    (function)gpuvec_stream_destroy,
    (function)gpuvec_stream_synchronize,
    (function)gpuvec_stream_query,
    (function)gpuvec_stream_wait,
    (function)gpuvec_event_create,
    (function)gpuvec_event_record,
    (function)gpuvec_event_query,
    (function)gpuvec_event_synchronize,
    (function)gpuvec_event_elapsed,
    (function)gpuvec_event_destroy,
    (function)gpuvec_set_placement,
    (function)gpuvec_get_placement,
    (function)gpuvec_set_thread_placement,
    (function)gpuvec_get_thread_placement,
    (function)gpuvec_set_num_threads,
    (function)gpuvec_get_num_threads,
    (function)gpuvec_set_device,
    (function)gpuvec_get_device,
    (function)gpuvec_why_cpu,
    (function)gpuvec_last_run,
    (function)gpuvec_init,
    (function)gpuvec_device_count,
    (function)gpuvec_device_name,
    (function)gpuvec_version,
    (function)gpuvec_abi_version,
    (function)gpuvec_last_error,
    (function)gpuvec_last_status,
    (function)gpuvec_status_string,
    /* End of what build.rs writes. */
};

int main(void)
{
    const gpuvec_status status = gpuvec_scale_f64(2, NULL, NULL, 0, NULL);
    const gpuvec_place place = GPUVEC_PLACE_AUTO;
    const gpuvec_backend backend = GPUVEC_BACKEND_NONE;
    gpuvec_stream *const stream = NULL;
    gpuvec_event *const event = NULL;
    const gpuvec_accumulator_kind kind = GPUVEC_ACCUMULATOR_SUM_F32;
    gpuvec_accumulator *const accumulator = NULL;
    const int32_t type = GPUVEC_F32 | GPUVEC_SCALAR;
    const gpuvec_expr_form form = GPUVEC_EXPR_PTX;
    gpuvec_expr *const expr = NULL;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        if (FUNCTIONS[i] == 0) {
            return 1;
        }
    }
    return status != GPUVEC_OK || place != GPUVEC_PLACE_AUTO || backend != GPUVEC_BACKEND_NONE ||
           stream != NULL || event != NULL || kind != 1 ||
           accumulator != NULL || type == GPUVEC_NUMBER || form == GPUVEC_EXPR_PROGRAM ||
           expr != NULL;
}
