//! The library's functions, as include/gpuvec.h declares them.

use crate::shapes::PerAxis;
use std::ffi::c_int;
use std::mem::transmute;

type OneInput = unsafe extern "C" fn(usize, usize, usize, usize) -> c_int;
type TwoInputs = unsafe extern "C" fn(usize, usize, usize, usize, usize) -> c_int;
type FactorAndOne<F> = unsafe extern "C" fn(F, usize, usize, usize, usize) -> c_int;
type FactorAndTwo<F> = unsafe extern "C" fn(F, usize, usize, usize, usize, usize) -> c_int;

/// An operation's function for one element type. Its arguments are the factor, if it has one, the addresses of one or
/// two inputs and of the output, the number of elements, and the stream.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    address: usize,
    inputs: usize,
    /// The size of the factor, or 0.
    factor_bytes: usize,
}

impl Function {
    /// Returns the function at an address.
    ///
    /// # Safety
    ///
    /// The library has a function with these arguments there.
    pub(crate) const unsafe fn at((address, inputs, factor_bytes): (usize, usize, usize)) -> Self {
        Function { address, inputs, factor_bytes }
    }

    /// Calls the function with a stream's handle or 0, and returns the status. A function of one input ignores `b`, and
    /// a function without a factor ignores `factor`.
    ///
    /// # Safety
    ///
    /// As the header says: the inputs and the output have `n` elements, or the output one.
    pub(crate) unsafe fn call(
        self, factor: f64, [a, b]: [usize; 2], out: usize, n: usize, stream: usize,
    ) -> c_int {
        let at = self.address;
        // SAFETY: by the caller's promise, and by the promise of `at`.
        unsafe {
            match (self.inputs, self.factor_bytes) {
                (1, 0) => transmute::<usize, OneInput>(at)(a, out, n, stream),
                (1, 4) => {
                    transmute::<usize, FactorAndOne<f32>>(at)(single(factor), a, out, n, stream)
                }
                (1, _) => transmute::<usize, FactorAndOne<f64>>(at)(factor, a, out, n, stream),
                (_, 0) => transmute::<usize, TwoInputs>(at)(a, b, out, n, stream),
                (_, 4) => {
                    transmute::<usize, FactorAndTwo<f32>>(at)(single(factor), a, b, out, n, stream)
                }
                _ => transmute::<usize, FactorAndTwo<f64>>(at)(factor, a, b, out, n, stream),
            }
        }
    }
}

/// Rounds to the nearest `f32` by integer arithmetic: a conversion would depend on the thread's floating-point modes.
fn single(value: f64) -> f32 {
    const INFINITY: u64 = f32::INFINITY.to_bits() as u64;
    if !value.is_finite() {
        return value as f32;
    }
    let bits = value.to_bits();
    let (sign, field) = ((bits >> 32) as u32 & 1 << 31, bits >> 52 & 0x7ff);
    let integer = bits & ((1 << 52) - 1) | u64::from(field > 0) << 52;
    // Normal numbers of `f32` have exponent fields from 897 on. Below that, all numbers have the same last bit. A shift
    // of 55 bits rounds to 0, like every longer shift.
    let shift = 29 + 897_u64.saturating_sub(field).min(26);
    // A tie goes to the even neighbour.
    let rounded = (integer + (1 << (shift - 1)) - 1 + (integer >> shift & 1)) >> shift;
    let magnitude = (field.saturating_sub(897) << 23) + rounded;
    f32::from_bits(sign | magnitude.min(INFINITY) as u32)
}

/// `gpuvec_expr_run_outputs`: a handle, pointers to the inputs' and to the outputs' addresses, the numbers of outputs
/// and of elements, and the stream.
type Run = unsafe extern "C" fn(usize, *const usize, *const usize, usize, usize, usize) -> c_int;
type Arrays = *const StridedArray;
/// `gpuvec_expr_run_nd`: a handle, the fields of a [`Layout`], and the stream.
type RunStrided =
    unsafe extern "C" fn(usize, i32, *const isize, Arrays, Arrays, u64, usize) -> c_int;

// The lengths and the strides of `gpuvec_expr_run_nd` are int64_t.
const _: () = assert!(size_of::<isize>() == size_of::<i64>());

/// `gpuvec_array`: the addresses of an array or a scalar, and of the array's strides.
#[repr(C)]
pub(crate) struct StridedArray {
    data: usize,
    strides: usize,
}

/// The arguments of `gpuvec_expr_run_nd`, with the strides that they point to.
pub(crate) struct Layout {
    pub(crate) shape: PerAxis<isize>,
    /// The inputs, then the outputs.
    pub(crate) arrays: Vec<StridedArray>,
    /// The strides of each array; `None` for scalars.
    _strides: Vec<Option<PerAxis<isize>>>,
    /// A bit for each reduced axis.
    pub(crate) mask: u64,
}

impl Layout {
    /// Returns the layout of arrays and scalars at `addresses`.
    pub(crate) fn new(
        shape: PerAxis<isize>, mask: u64, addresses: &[usize], strides: Vec<Option<PerAxis<isize>>>,
    ) -> Self {
        let at = |strides: &PerAxis<isize>| strides.as_ptr().expose_provenance();
        let array = |(data, strides): (&usize, &Option<PerAxis<isize>>)| StridedArray {
            data: *data,
            strides: strides.as_ref().map_or(0, at),
        };
        let arrays = addresses.iter().zip(&strides).map(array).collect();
        Layout { shape, arrays, _strides: strides, mask }
    }
}

/// The library's functions that run an expression on contiguous arrays, and on arrays of any strides.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    pub(crate) plain: Run,
    pub(crate) strided: RunStrided,
}

impl Runs {
    /// Returns the functions at their addresses.
    ///
    /// # Safety
    ///
    /// The library has these functions there.
    pub(crate) unsafe fn at((plain, strided): (usize, usize)) -> Self {
        // SAFETY: by the caller's promise.
        unsafe {
            let (plain, strided) =
                (transmute::<usize, Run>(plain), transmute::<usize, RunStrided>(strided));
            Runs { plain, strided }
        }
    }
}
