//! The model of one call according to include/gpuvec.h: its possible errors, and its result.

use crate::memory::Memory;
use crate::steps::Operation;
use gpuvec::abi::classic::{add_arrays, dot_product, vector_add};
use gpuvec::abi::elementwise::*;
use gpuvec::abi::expr::{gpuvec_expr_compile, gpuvec_expr_run};
use gpuvec::abi::memory::gpuvec_copy;
use gpuvec::abi::reduce::*;
use gpuvec::gpuvec_status::{self, *};
use gpuvec::gpuvec_type::{self, *};
use gpuvec_exact::{Dot, Kind, State, Sum};
use std::ffi::{CStr, c_void};
use std::ptr::{
    null_mut, with_exposed_provenance, with_exposed_provenance_mut, without_provenance_mut,
};
use std::sync::OnceLock;

/// The arguments of one call on arrays.
#[derive(Debug)]
pub struct Arguments {
    pub task: Task,
    pub a: usize,
    pub b: usize,
    pub out: usize,
    pub n: usize,
    pub stream: usize,
}

#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// An operation, with the bits of alpha.
    Compute(Operation, u64),
    /// A copy of bytes from `a`.
    Copy,
}

/// The known state of the process.
#[derive(Clone, Copy)]
pub struct Situation {
    pub gpu_is_missing: bool,
    pub is_on_cpu: bool,
    pub stream_is_wrong: bool,
}

struct Shape {
    element_bytes: usize,
    output_bytes: usize,
    inputs: usize,
    is_reduction: bool,
}

impl Task {
    fn shape(self) -> Shape {
        use Operation::*;
        let (element_bytes, output_bytes, inputs, is_reduction) = match self {
            Task::Copy => (1, 1, 1, false),
            Task::Compute(operation, _) => match operation {
                VectorAdd | AddArrays | AxpyF32 | FormulaF32 => (4, 4, 2, false),
                MulI64 | DivF64 | AxpyF64 => (8, 8, 2, false),
                ScaleF32 => (4, 4, 1, false),
                DotProduct => (4, 4, 2, true),
                DotI32 | SumOfFormulaI32 => (4, 8, 2, true),
                MinF32 => (4, 4, 1, true),
                SumF64 | SumI64 => (8, 8, 1, true),
            },
        };
        Shape { element_bytes, output_bytes, inputs, is_reduction }
    }

    /// Returns whether the function has an argument for a stream.
    pub fn takes_stream(self) -> bool {
        use Operation::*;
        !matches!(self, Task::Compute(VectorAdd | AddArrays | DotProduct, _))
    }
}

/// Runs an expression of the arrays `a` and `b`, compiled once.
///
/// # Safety
/// As for `gpuvec_expr_run`.
unsafe fn run(
    expression: &OnceLock<usize>, (text, ty): (&CStr, gpuvec_type), inputs: [*const c_void; 2],
    out: *mut c_void, n: usize, stream: usize,
) -> i32 {
    let handle = *expression.get_or_init(|| {
        let (names, types) = ([c"a".as_ptr(), c"b".as_ptr()], [ty as i32; 2]);
        let mut expr = null_mut();
        // SAFETY: C strings, and arrays of two.
        let status = unsafe {
            gpuvec_expr_compile(text.as_ptr(), names.as_ptr(), types.as_ptr(), 2, &raw mut expr)
        };
        assert_eq!(status, 0);
        expr.addr()
    });
    // SAFETY: this function's promise.
    unsafe {
        gpuvec_expr_run(
            without_provenance_mut(handle),
            inputs.as_ptr(),
            out,
            n,
            without_provenance_mut(stream),
        )
    }
}

static FORMULA: OnceLock<usize> = OnceLock::new();
static SUM: OnceLock<usize> = OnceLock::new();

/// The address, the number of elements, and the bytes of an element.
type Array = (usize, usize, usize);

impl Arguments {
    pub fn call(&self) -> i32 {
        use Operation::*;
        let [a, b] = [self.a, self.b].map(with_exposed_provenance::<c_void>);
        let out = with_exposed_provenance_mut::<c_void>(self.out);
        let (n, stream) = (self.n, without_provenance_mut::<c_void>(self.stream).cast());
        let Task::Compute(operation, alpha) = self.task else {
            // SAFETY: both are in existing memory, or the library refuses the call.
            return unsafe { gpuvec_copy(out, a, n, stream) };
        };
        let (single, double) = (f32::from_bits(alpha as u32), f64::from_bits(alpha));
        // SAFETY: every array is in existing memory, or the library refuses the call.
        unsafe {
            match operation {
                VectorAdd => vector_add(a.cast(), b.cast(), out.cast(), n),
                AddArrays => add_arrays(a.cast(), b.cast(), out.cast(), n),
                DotProduct => dot_product(a.cast(), b.cast(), out.cast(), n),
                MulI64 => gpuvec_mul_i64(a.cast(), b.cast(), out.cast(), n, stream),
                DivF64 => gpuvec_div_f64(a.cast(), b.cast(), out.cast(), n, stream),
                ScaleF32 => gpuvec_scale_f32(single, a.cast(), out.cast(), n, stream),
                AxpyF32 => gpuvec_axpy_f32(single, a.cast(), b.cast(), out.cast(), n, stream),
                AxpyF64 => gpuvec_axpy_f64(double, a.cast(), b.cast(), out.cast(), n, stream),
                DotI32 => gpuvec_dot_i32(a.cast(), b.cast(), out.cast(), n, stream),
                SumF64 => gpuvec_sum_f64(a.cast(), out.cast(), n, stream),
                SumI64 => gpuvec_sum_i64(a.cast(), out.cast(), n, stream),
                MinF32 => gpuvec_min_f32(a.cast(), out.cast(), n, stream),
                FormulaF32 => run(&FORMULA, (c"a*b + 1", GPUVEC_F32), [a, b], out, n, self.stream),
                SumOfFormulaI32 => {
                    run(&SUM, (c"sum(i64(a)*b)", GPUVEC_I32), [a, b], out, n, self.stream)
                }
            }
        }
    }

    fn inputs(&self) -> Vec<Array> {
        let Shape { element_bytes, inputs, .. } = self.task.shape();
        if self.n == 0 {
            return Vec::new();
        }
        [self.a, self.b][..inputs].iter().map(|input| (*input, self.n, element_bytes)).collect()
    }

    /// Returns the output; an empty sum has one, for its zero.
    fn output(&self) -> Option<Array> {
        let Shape { output_bytes, is_reduction, .. } = self.task.shape();
        let elements = if is_reduction && !self.has_no_result() { 1 } else { self.n };
        (elements > 0).then_some((self.out, elements, output_bytes))
    }

    /// Returns whether it is the minimum of no elements.
    fn has_no_result(&self) -> bool {
        self.n == 0 && matches!(self.task, Task::Compute(Operation::MinF32, _))
    }

    /// Returns the addresses and bytes of all arrays of a call without errors.
    pub fn arrays(&self) -> impl Iterator<Item = (usize, usize)> {
        let arrays = self.inputs().into_iter().chain(self.output());
        arrays.map(|(address, elements, bytes)| (address, elements * bytes))
    }

    /// Returns whether there is nothing to compute or to copy.
    pub fn is_nothing(&self) -> bool {
        self.n == 0 || self.is_onto_itself()
    }

    /// Returns whether it is a copy of memory onto itself, which reads nothing.
    pub fn is_onto_itself(&self) -> bool {
        matches!(self.task, Task::Copy) && self.a == self.out
    }

    /// Returns the first bytes of `out` after the call; None if nothing is stored.
    pub fn result(&self, memory: &Memory) -> Option<Vec<u8>> {
        use Operation::*;
        self.output()?;
        let mut inputs = self.inputs().into_iter().map(|array| values(memory, array));
        let a = inputs.next().unwrap_or_default();
        let b = inputs.next().unwrap_or_else(|| a.clone());
        let Task::Compute(operation, alpha) = self.task else {
            return Some(a.iter().map(|byte| *byte as u8).collect());
        };
        let (alpha32, alpha64) = (f32::from_bits(alpha as u32), f64::from_bits(alpha));
        Some(match operation {
            VectorAdd => each(&a, &b, |x, y| stored(float(x) + float(y))),
            AddArrays => each(&a, &b, |x, y| (*x as u32).wrapping_add(*y as u32).to_ne_bytes()),
            MulI64 => each(&a, &b, |x, y| x.wrapping_mul(*y).to_ne_bytes()),
            DivF64 => each(&a, &b, |x, y| stored_double(double(x) / double(y))),
            ScaleF32 => each(&a, &b, |x, _| stored(alpha32 * float(x))),
            AxpyF32 => each(&a, &b, |x, y| stored(alpha32.mul_add(float(x), float(y)))),
            AxpyF64 => each(&a, &b, |x, y| stored_double(alpha64.mul_add(double(x), double(y)))),
            DotProduct => stored(exact::<Dot<f32>>(&a, &b, |x, y| (float(x), float(y)))).into(),
            SumF64 => stored_double(exact::<Sum<f64>>(&a, &b, |x, _| double(x))).into(),
            MinF32 => {
                let least = a.iter().map(float).min_by(f32::total_cmp).unwrap_or(f32::NAN);
                stored(if a.iter().any(|x| float(x).is_nan()) { f32::NAN } else { least }).into()
            }
            SumI64 => a.iter().fold(0u64, |sum, x| sum.wrapping_add(*x)).to_ne_bytes().into(),
            FormulaF32 => each(&a, &b, |x, y| stored(float(x) * float(y) + 1.0)),
            DotI32 | SumOfFormulaI32 => {
                let term = |(x, y): (&u64, &u64)| i64::from(*x as i32) * i64::from(*y as i32);
                a.iter().zip(&b).map(term).fold(0i64, i64::wrapping_add).to_ne_bytes().into()
            }
        })
    }

    /// Returns the call's errors: it must return one of them, or success if there are none.
    pub fn predicted(&self, memory: &Memory, situation: Situation) -> Vec<i32> {
        let mut errors = Vec::new();
        if situation.stream_is_wrong {
            errors.push(GPUVEC_ERROR_HANDLE);
        }
        if self.has_no_result() {
            errors.push(GPUVEC_ERROR_EMPTY);
        }
        let arrays = || self.inputs().into_iter().chain(self.output());
        errors.extend(arrays().flat_map(wrong_argument));
        let in_place = match self.task {
            Task::Copy => true,
            Task::Compute(operation, _) => {
                !matches!(operation, Operation::DotI32 | Operation::SumOfFormulaI32)
            }
        };
        let is_same = |input: Array| in_place && input.0 == self.out;
        let shares = |input: &Array| {
            !is_same(*input) && self.output().is_some_and(|output| overlap(*input, output))
        };
        if self.inputs().iter().any(shares) {
            errors.push(GPUVEC_ERROR_OVERLAP);
        }
        let is_copy = matches!(self.task, Task::Copy);
        if self.n > 0 && situation.gpu_is_missing && !is_copy {
            errors.push(GPUVEC_ERROR_NO_GPU);
        }
        if !self.is_onto_itself() {
            let here = |array| out_of_reach(memory, array, situation.is_on_cpu && !is_copy);
            errors.extend(arrays().flat_map(here));
            let is_there = arrays().all(|(address, n, bytes)| {
                n.checked_mul(bytes).is_some_and(|bytes| memory.holds((address, bytes)))
            });
            // An unknown address may be refused first, or be the library's own.
            if !errors.is_empty() && !is_there {
                errors.extend([GPUVEC_ERROR_POINTER, GPUVEC_ERROR_OUT_OF_BOUNDS]);
            }
        }
        errors.into_iter().map(|status| status as i32).collect()
    }
}

fn wrong_argument((address, n, element_bytes): Array) -> Vec<gpuvec_status> {
    let bytes = n as u128 * element_bytes as u128;
    let is_too_long = bytes > isize::MAX as u128 || address as u128 + bytes > usize::MAX as u128;
    let found = [
        (address == 0).then_some(GPUVEC_ERROR_NULL),
        (address % element_bytes != 0).then_some(GPUVEC_ERROR_MISALIGNED),
        is_too_long.then_some(GPUVEC_ERROR_SIZE),
    ];
    found.into_iter().flatten().collect()
}

/// Returns the errors of an array in device memory.
fn out_of_reach(
    memory: &Memory, (address, n, element_bytes): Array, is_on_cpu: bool,
) -> Vec<gpuvec_status> {
    let Some(available) = memory.on_device(address) else { return Vec::new() };
    let is_too_long = n as u128 * element_bytes as u128 > available as u128;
    let too_long = is_too_long.then_some(GPUVEC_ERROR_OUT_OF_BOUNDS);
    too_long.into_iter().chain(is_on_cpu.then_some(GPUVEC_ERROR_PLACEMENT)).collect()
}

fn overlap((x, n, of_x): Array, (y, m, of_y): Array) -> bool {
    let end = |start, n, bytes| start as u128 + n as u128 * bytes as u128;
    (x as u128) < end(y, m, of_y) && (y as u128) < end(x, n, of_x)
}

/// Returns the elements' bits.
fn values(memory: &Memory, (address, n, element_bytes): Array) -> Vec<u64> {
    let bits = |element: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..element.len()].copy_from_slice(element);
        u64::from_le_bytes(bytes)
    };
    memory.expected(address, n * element_bytes).chunks_exact(element_bytes).map(bits).collect()
}

fn each<const BYTES: usize>(
    a: &[u64], b: &[u64], op: impl Fn(&u64, &u64) -> [u8; BYTES],
) -> Vec<u8> {
    a.iter().zip(b).flat_map(|(x, y)| op(x, y)).collect()
}

fn float(bits: &u64) -> f32 {
    f32::from_bits(*bits as u32)
}

fn double(bits: &u64) -> f64 {
    f64::from_bits(*bits)
}

fn stored(x: f32) -> [u8; 4] {
    (if x.is_nan() { 0x7FC0_0000 } else { x.to_bits() }).to_ne_bytes()
}

fn stored_double(x: f64) -> [u8; 8] {
    (if x.is_nan() { 0x7FF8_0000_0000_0000 } else { x.to_bits() }).to_ne_bytes()
}

fn exact<K: Kind>(a: &[u64], b: &[u64], term: impl Fn(&u64, &u64) -> K::Term) -> K::Element {
    let mut state = State::<K>::ZERO;
    a.iter().zip(b).for_each(|(x, y)| state.deposit(term(x, y)));
    state.value()
}
