//! # Reductions
//!
//! `gpuvec_<operation>_<type>(inputs…, out, n, stream)` reduces all elements of the inputs to one value and
//! stores it in `out[0]`. The types are f32 (`float`), f64 (`double`), i32 (`int32_t`) and i64 (`int64_t`).
//!
//! `dot` and `sum` of floats are exact: the sum of all elements or exact products is rounded once, to the type
//! of `out` (see "Results"). A NaN is stored as 0x7FC00000 (`float`) or 0x7FF8000000000000 (`double`); an exact
//! zero, and the result for `n == 0`, is +0. `dot` and `sum` of integers are an `int64_t` that wraps around; the
//! result for `n == 0` is 0. Accumulators compute exact sums in parts.
//!
//! `min` and `max` of floats follow IEEE 754-2019's minimum and maximum: -0 is less than +0, and a NaN among
//! the elements makes the result the NaN above. The result therefore has the same bits for any number of
//! threads, on the CPU and on any GPU. An empty array has no minimum or maximum: for `n == 0` the call returns
//! `GPUVEC_ERROR_EMPTY` and writes nothing.
//!
//! `out` is one element. It may be the first element of an input of the same type, and must not overlap the
//! inputs otherwise. With a NULL `stream` the call waits for the result (see "Streams"). The functions return
//! `GPUVEC_OK` or an error.
//!
//! ```c
//! float x[4] = {1e30f, 1, -1e30f, 2}, sum;
//! if (gpuvec_sum_f32(x, &sum, 4, NULL) == GPUVEC_OK) {
//!     printf("%g\n", sum); // 3
//! }
//! ```

use super::{Status, guard, operation};
use crate::objects::stream::gpuvec_stream;

// The functions, which build/operations.rs writes from the rows of crates/ops/src/rows.rs.
include!(concat!(env!("OUT_DIR"), "/reduce.rs"));
