//! The library's functions, as include/gpuvec.h declares them.

use std::ffi::c_int;
use std::mem::transmute;

type OneInput = unsafe extern "C" fn(usize, usize, usize, usize) -> c_int;
type TwoInputs = unsafe extern "C" fn(usize, usize, usize, usize, usize) -> c_int;
type FactorAndOne<F> = unsafe extern "C" fn(F, usize, usize, usize, usize) -> c_int;
type FactorAndTwo<F> = unsafe extern "C" fn(F, usize, usize, usize, usize, usize) -> c_int;

/// A function for one element type. Its arguments are a factor, the addresses of one or two inputs and of
/// the output, the number of elements, and the stream.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    One(OneInput),
    Two(TwoInputs),
    OneWithF32(FactorAndOne<f32>),
    OneWithF64(FactorAndOne<f64>),
    TwoWithF32(FactorAndTwo<f32>),
    TwoWithF64(FactorAndTwo<f64>),
}

impl Function {
    /// Returns the function at an address. `factor_bytes` is the size of its factor, or 0 if it has none.
    ///
    /// # Safety
    ///
    /// The library has a function with these arguments at the address.
    pub(crate) unsafe fn at(address: usize, inputs: usize, factor_bytes: usize) -> Option<Self> {
        // SAFETY: by the caller's promise.
        unsafe {
            Some(match (inputs, factor_bytes) {
                (1, 0) => Function::One(transmute::<usize, OneInput>(address)),
                (2, 0) => Function::Two(transmute::<usize, TwoInputs>(address)),
                (1, 4) => Function::OneWithF32(transmute::<usize, FactorAndOne<f32>>(address)),
                (1, 8) => Function::OneWithF64(transmute::<usize, FactorAndOne<f64>>(address)),
                (2, 4) => Function::TwoWithF32(transmute::<usize, FactorAndTwo<f32>>(address)),
                (2, 8) => Function::TwoWithF64(transmute::<usize, FactorAndTwo<f64>>(address)),
                _ => return None,
            })
        }
    }

    /// Calls the function with a stream's handle, or 0; returns its status. A function of one input ignores `b`,
    /// and one without a factor ignores it.
    ///
    /// # Safety
    ///
    /// As the header says: the inputs and the output have `n` elements, or the output one.
    pub(crate) unsafe fn call(
        self, factor: f64, [a, b]: [usize; 2], out: usize, n: usize, stream: usize,
    ) -> c_int {
        // SAFETY: by the caller's promise, and that of `at`.
        unsafe {
            match self {
                Function::One(function) => function(a, out, n, stream),
                Function::Two(function) => function(a, b, out, n, stream),
                Function::OneWithF32(function) => function(single(factor), a, out, n, stream),
                Function::OneWithF64(function) => function(factor, a, out, n, stream),
                Function::TwoWithF32(function) => function(single(factor), a, b, out, n, stream),
                Function::TwoWithF64(function) => function(factor, a, b, out, n, stream),
            }
        }
    }
}

/// Rounds to the nearest `f32`, by integers: a conversion would depend on the thread's floating-point modes.
fn single(value: f64) -> f32 {
    const INFINITY: u64 = f32::INFINITY.to_bits() as u64;
    if !value.is_finite() {
        return value as f32;
    }
    let bits = value.to_bits();
    let (sign, field) = ((bits >> 32) as u32 & 1 << 31, bits >> 52 & 0x7ff);
    let integer = bits & ((1 << 52) - 1) | u64::from(field > 0) << 52;
    // Below the normal numbers of `f32`, whose fields begin at 897, the last bit has the same place for all. Bits
    // that are further away than 55 round to 0, too.
    let shift = 29 + 897_u64.saturating_sub(field).min(26);
    // A tie goes to the even neighbour.
    let rounded = (integer + (1 << (shift - 1)) - 1 + (integer >> shift & 1)) >> shift;
    let magnitude = (field.saturating_sub(897) << 23) + rounded;
    f32::from_bits(sign | magnitude.min(INFINITY) as u32)
}

type ExprRun =
    unsafe extern "C" fn(usize, *const usize, *const usize, usize, usize, usize) -> c_int;

/// `gpuvec_expr_run_outputs`, whose arguments are a handle, the addresses of the inputs' and of the outputs'
/// addresses, the numbers of outputs and of elements, and the stream.
#[derive(Clone, Copy)]
pub(crate) struct Run(ExprRun);

impl Run {
    /// Returns the function at an address.
    ///
    /// # Safety
    ///
    /// The function is there.
    pub(crate) unsafe fn at(address: usize) -> Self {
        // SAFETY: by the caller's promise.
        Run(unsafe { transmute::<usize, ExprRun>(address) })
    }

    /// Calls the function with a stream's handle, or 0; returns its status.
    ///
    /// # Safety
    ///
    /// As the header says.
    pub(crate) unsafe fn call(
        self, handle: usize, inputs: &[usize], outputs: &[usize], n: usize, stream: usize,
    ) -> c_int {
        // SAFETY: by the caller's promise.
        unsafe { (self.0)(handle, inputs.as_ptr(), outputs.as_ptr(), outputs.len(), n, stream) }
    }
}

/// `gpuvec_array`: the addresses of an array, or of a scalar, and of the array's strides.
#[repr(C)]
struct StridedArray {
    data: usize,
    strides: usize,
}

/// The lengths and the strides of the arrays of a call.
pub(crate) struct Layout {
    pub(crate) shape: Vec<isize>,
    /// The strides of each array that has some, the inputs' first.
    pub(crate) strides: Vec<isize>,
    /// For each input whether it has strides. Every output has.
    pub(crate) have_strides: Vec<bool>,
    /// A bit for each reduced axis.
    pub(crate) mask: u64,
}

type ExprRunNd = unsafe extern "C" fn(
    usize,
    i32,
    *const isize,
    *const StridedArray,
    *const StridedArray,
    u64,
    usize,
) -> c_int;

/// `gpuvec_expr_run_nd`.
#[derive(Clone, Copy)]
pub(crate) struct RunStrided(ExprRunNd);

// Its lengths and strides are int64_t.
const _: () = assert!(size_of::<isize>() == size_of::<i64>());

impl RunStrided {
    /// Returns the function at an address.
    ///
    /// # Safety
    ///
    /// The function is there.
    pub(crate) unsafe fn at(address: usize) -> Self {
        // SAFETY: by the caller's promise.
        RunStrided(unsafe { transmute::<usize, ExprRunNd>(address) })
    }

    /// Calls the function with a stream's handle, or 0; returns its status.
    ///
    /// # Safety
    ///
    /// As the header says.
    pub(crate) unsafe fn call(
        self, handle: usize, layout: &Layout, inputs: &[usize], outputs: &[usize], stream: usize,
    ) -> c_int {
        let shape = &layout.shape;
        let mut strides = layout.strides.chunks_exact(shape.len().max(1)).map(<[isize]>::as_ptr);
        let mut array = |(data, has_strides): (&usize, &bool)| {
            let strides = has_strides.then(|| strides.next()).flatten();
            let strides = strides.map_or(0, <*const isize>::expose_provenance);
            StridedArray { data: *data, strides }
        };
        let inputs: Vec<_> = inputs.iter().zip(&layout.have_strides).map(&mut array).collect();
        let outputs: Vec<_> = outputs.iter().map(|data| array((data, &true))).collect();
        let (axes, inputs, outputs) = (shape.len() as i32, inputs.as_ptr(), outputs.as_ptr());
        // SAFETY: by the caller's promise. Callers pass as many axes as the library accepts.
        unsafe { (self.0)(handle, axes, shape.as_ptr(), inputs, outputs, layout.mask, stream) }
    }
}
