//! Elementwise operations on one core.

use crate::element::Element;
use crate::op::Elementwise;
use std::arch::asm;
use std::is_x86_feature_detected;

/// Elements worked on at once: read whole, then written, so that an output that is an input
/// becomes vector code as well.
const BLOCK: usize = 32;

/// `out[i] = op(a[i], b[i])`. An operation with one input gets it twice.
///
/// # Safety
/// `a` and `b` must be readable and `out` writable for `n` elements, and `out` must be exactly `a`
/// or `b` or overlap neither.
pub(crate) unsafe fn elementwise<O: Elementwise>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    out: *mut O::Element,
    n: usize,
) {
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both; the rest is this function's promise.
        unsafe { avx2(op, a, b, out, n) }
    } else {
        // SAFETY: this function's promise.
        unsafe { baseline(op, a, b, out, n) }
    }
}

/// # Safety
/// As [`elementwise`], on a processor with AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<O: Elementwise>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    out: *mut O::Element,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { body(op, a, b, out, n) }
}

/// # Safety
/// As [`elementwise`].
unsafe fn baseline<O: Elementwise>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    out: *mut O::Element,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { body(op, a, b, out, n) }
}

/// The block as it is stored. Few have a NaN, and to find out is cheaper than to choose for each
/// element: of two at once, since what has no order to another has a NaN on one side.
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

/// # Safety
/// As [`elementwise`].
#[inline(always)]
unsafe fn body<O: Elementwise>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    out: *mut O::Element,
    n: usize,
) {
    let whole = n - n % BLOCK;
    for start in (0..whole).step_by(BLOCK) {
        // SAFETY: the caller promises `n` elements, of which `start..start + BLOCK` are some; an
        // array of elements is aligned as an element is.
        unsafe {
            let x = a.add(start).cast::<[O::Element; BLOCK]>().read();
            let y = b.add(start).cast::<[O::Element; BLOCK]>().read();
            let block = canonical(std::array::from_fn(|i| op.apply(x[i], y[i])));
            out.add(start).cast::<[O::Element; BLOCK]>().write(block);
        }
        stay_a_loop();
    }
    for i in whole..n {
        // SAFETY: `i < n`.
        unsafe { out.add(i).write(op.apply(a.add(i).read(), b.add(i).read()).canonical()) };
        stay_a_loop();
    }
}
