//! # Elementwise operations
//!
//! `gpuvec_<operation>_<type>(inputs…, out, n, stream)` computes `out[i]` from element `i` of each input, for
//! `i` from 0 to `n - 1`. The types are f32 (`float`), f64 (`double`), i32 (`int32_t`) and i64 (`int64_t`).
//!
//! Floating-point elements are rounded to nearest once (IEEE 754), subnormals included; a NaN is stored as
//! 0x7FC00000 (`float`) or 0x7FF8000000000000 (`double`). Integers wrap around (two's complement).
//!
//! `out` may be exactly one of the inputs (in place); any other overlap with an input is an error. `n == 0`
//! does nothing. With a NULL `stream` the call waits for the result (see "Streams"). The functions return
//! `GPUVEC_OK` or an error.
//!
//! ```c
//! double x[3] = {1, 2, 3}, y[3] = {0.5, 0.5, 0.5};
//! if (gpuvec_axpy_f64(10, x, y, y, 3, NULL) == GPUVEC_OK) { // y = 10 * x + y
//!     printf("%g %g %g\n", y[0], y[1], y[2]); // 10.5 20.5 30.5
//! }
//! ```

use super::{Status, guard, operation};
use crate::objects::stream::gpuvec_stream;

// The functions, which build/operations.rs writes from the rows of crates/ops/src/rows.rs.
include!(concat!(env!("OUT_DIR"), "/elementwise.rs"));
