//! Elementwise operations on one core.

use super::{Inputs, inputs};
use crate::call::Call;
use crate::call::chunk::Chunk;
use gpuvec_ops::{Element, Elementwise};
use std::arch::asm;
use std::is_x86_feature_detected;

/// Elements worked on at once: read whole, then written, so that an output that is an input
/// becomes vector code as well.
const BLOCK: usize = 32;

/// Computes `out[i] = op(a[i], b[i])` for the elements of a chunk.
pub(crate) fn elementwise<O: Elementwise>(op: O, call: &Call<'_>, chunk: &Chunk) {
    let inputs = inputs::<O>(call, chunk);
    let out = Out(call.output().host_pointer(chunk.start));
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both.
        unsafe { avx2(op, inputs, out) }
    } else {
        body(op, inputs, out);
    }
}

/// The output's elements of a chunk, which a [`Call`] promises to be writable.
struct Out<T>(*mut T);

#[target_feature(enable = "avx2,fma")]
fn avx2<O: Elementwise>(op: O, inputs: Inputs<O::Element>, out: Out<O::Element>) {
    body(op, inputs, out);
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
fn body<O: Elementwise>(op: O, inputs: Inputs<O::Element>, Out(out): Out<O::Element>) {
    let Inputs { a, b, len } = inputs;
    let whole = len - len % BLOCK;
    for start in (0..whole).step_by(BLOCK) {
        // SAFETY: the call promises `len` elements from each pointer, of which `start..start + BLOCK`
        // are some; an array of elements is aligned as an element is.
        unsafe {
            let x = a.add(start).cast::<[O::Element; BLOCK]>().read();
            let y = b.add(start).cast::<[O::Element; BLOCK]>().read();
            let block = canonical(std::array::from_fn(|i| op.apply(x[i], y[i])));
            out.add(start).cast::<[O::Element; BLOCK]>().write(block);
        }
        stay_a_loop();
    }
    for i in whole..len {
        // SAFETY: the call promises `len` elements from each pointer, and `i < len`.
        unsafe { out.add(i).write(op.apply(a.add(i).read(), b.add(i).read()).canonical()) };
        stay_a_loop();
    }
}
