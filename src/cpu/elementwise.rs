//! Elementwise operations on one core: a loop over arrays for each, without blocks.

use gpuvec_ops::{Element, Elementwise, Exact, Fold, Op, Visitor};
use std::arch::asm;
use std::ffi::c_void;
use std::is_x86_feature_detected;

/// Elements worked on at once: read whole, then written, so that an output that is an input
/// becomes vector code as well.
const BLOCK: usize = 32;

/// The arrays of an elementwise operation, whose types are erased. With one input `b` is `a`.
pub(crate) struct Elements {
    pub(crate) inputs: [*const c_void; 2],
    pub(crate) out: *mut c_void,
    pub(crate) len: usize,
}

/// Computes `out[i] = op(a[i], b[i])`, where `op` multiplies by a number of these bits, if it does.
///
/// # Safety
/// Each address points to `len` elements of the operation's type, `out` to writable ones: exactly those of an
/// input, or none of any input. No other thread writes to any of them.
///
/// # Panics
/// For a reduction.
pub(crate) unsafe fn elementwise(op: Op, alpha: u64, elements: Elements) {
    op.visit(alpha, elements);
}

impl Visitor for Elements {
    type Result = ();

    fn elementwise<O: Elementwise>(self, op: O) {
        let Elements { inputs: [a, b], out, len } = self;
        let arrays = Arrays { a: a.cast(), b: b.cast(), out: out.cast(), len };
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has both.
            unsafe { avx2(op, arrays) }
        } else {
            body(op, arrays);
        }
    }

    fn fold<O: Fold>(self, _: O) {
        unreachable!("{:?} is a reduction", O::OP);
    }

    fn exact<O: Exact>(self, _: O) {
        unreachable!("{:?} is a reduction", O::OP);
    }
}

/// The arrays of an operation.
struct Arrays<T> {
    a: *const T,
    b: *const T,
    out: *mut T,
    len: usize,
}

#[target_feature(enable = "avx2,fma")]
fn avx2<O: Elementwise>(op: O, arrays: Arrays<O::Element>) {
    body(op, arrays);
}

/// The block as it is stored. Few have a NaN, and to find out is cheaper than to choose for each
/// element: of two at once, since a pair without an order has a NaN on one side.
#[inline(always)]
fn canonical<T: Element>(block: [T; BLOCK]) -> [T; BLOCK] {
    let (low, high) = block.split_at(BLOCK / 2);
    let is_unordered = |pair: (&T, &T)| pair.0.partial_cmp(pair.1).is_none();
    let has_nan = low.iter().zip(high).fold(false, |any, pair| any | is_unordered(pair));
    if has_nan { block.map(T::canonical) } else { block }
}

/// Keeps the compiler from making vector code of the loop around it, which would work on several
/// blocks at once, or on the few elements that are left.
#[inline(always)]
fn stay_a_loop() {
    // SAFETY: no instruction at all.
    unsafe { asm!("", options(nomem, nostack, preserves_flags)) };
}

#[inline(always)]
fn body<O: Elementwise>(op: O, Arrays { a, b, out, len }: Arrays<O::Element>) {
    let whole = len - len % BLOCK;
    for start in (0..whole).step_by(BLOCK) {
        // SAFETY: [`elementwise`] was promised `len` elements from each pointer, and `start + BLOCK <= len`;
        // an array of elements is aligned as an element is.
        unsafe {
            let x = a.add(start).cast::<[O::Element; BLOCK]>().read();
            let y = b.add(start).cast::<[O::Element; BLOCK]>().read();
            let block = canonical(std::array::from_fn(|i| op.apply(x[i], y[i])));
            out.add(start).cast::<[O::Element; BLOCK]>().write(block);
        }
        stay_a_loop();
    }
    for i in whole..len {
        // SAFETY: [`elementwise`] was promised `len` elements from each pointer, and `i < len`.
        unsafe { out.add(i).write(op.apply(a.add(i).read(), b.add(i).read()).canonical()) };
        stay_a_loop();
    }
}
