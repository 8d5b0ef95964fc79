//! Elementwise operations on one core: each is one loop over whole arrays.

use crate::arch::{InstructionSet, Isa, Vectorized, stay_a_loop};
use gpuvec_ops::{Element, Elementwise, Exact, Fold, Op, Visitor};
use std::ffi::c_void;

/// The elements of a block. The loop reads a block whole before it writes any element of it, so that the compiler can
/// vectorise it even where the output is an input.
const BLOCK: usize = 32;

/// The arrays of an elementwise operation, with their types erased. An operation on one input has it as both.
pub(crate) struct Elements {
    pub(crate) isa: Isa,
    pub(crate) inputs: [*const c_void; 2],
    pub(crate) out: *mut c_void,
    pub(crate) len: usize,
}

/// Computes `out[i] = op(a[i], b[i])`. An `op` that multiplies by a number takes its bits from `alpha`.
///
/// # Safety
/// Each address points to `len` elements of the operation's type. The elements at `out` are writable, and are exactly
/// the elements of an input or none of any input. No other thread writes to any of them.
///
/// # Panics
/// For a reduction.
pub(crate) unsafe fn elementwise(op: Op, alpha: u64, elements: Elements) {
    op.visit(alpha, elements);
}

impl Visitor for Elements {
    type Result = ();

    fn elementwise<O: Elementwise>(self, op: O) {
        self.isa.run_as_short(Loop(op, self));
    }

    fn fold<O: Fold>(self, _: O) {
        unreachable!("{:?} is a reduction", O::OP);
    }

    fn exact<O: Exact>(self, _: O) {
        unreachable!("{:?} is a reduction", O::OP);
    }
}

/// The block as it is stored. Few blocks have a NaN, and a search for one costs less than a choice for each element. A
/// comparison tests two elements: if they have no order, one of them is a NaN.
#[inline(always)]
fn canonical<T: Element>(block: [T; BLOCK]) -> [T; BLOCK] {
    let (low, high) = block.split_at(BLOCK / 2);
    let has_nan = low.iter().zip(high).fold(false, |any, (x, y)| any | x.partial_cmp(y).is_none());
    if has_nan { block.map(T::canonical) } else { block }
}

struct Loop<O>(O, Elements);

impl<O: Elementwise> Vectorized for Loop<O> {
    type Result = ();

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        let Loop(op, Elements { inputs, out, len, .. }) = self;
        let [a, b] = inputs.map(<*const c_void>::cast::<O::Element>);
        let out = out.cast::<O::Element>();
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
        let mut has_nan = false;
        for i in whole..len {
            // SAFETY: [`elementwise`] was promised `len` elements from each pointer, and `i < len`.
            let result = unsafe { op.apply(a.add(i).read(), b.add(i).read()) };
            has_nan |= result.partial_cmp(&result).is_none();
            // SAFETY: as above.
            unsafe { out.add(i).write(result) };
            stay_a_loop();
        }
        for i in if has_nan { whole..len } else { len..len } {
            // SAFETY: as above.
            unsafe { out.add(i).write(out.add(i).read().canonical()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuvec_ops::Step;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_set_of_instructions_has_the_same_bits(
            words in prop::collection::vec(any::<[u64; 3]>(), 1..80), alpha: u64,
        ) {
            let [a, b]: [Vec<u64>; 2] = [0, 1].map(|i| words.iter().map(|word| word[i]).collect());
            for op in Op::ALL.iter().filter(|op| matches!(op.step(), Step::Map(_))) {
                let len = words.len() * size_of::<u64>() / op.element_bytes();
                let results = |isa| {
                    let mut results = vec![0_u64; words.len()];
                    let inputs = [a.as_ptr().cast(), b.as_ptr().cast()];
                    let elements = Elements { isa, inputs, out: results.as_mut_ptr().cast(), len };
                    // SAFETY: the arrays have `len` elements; the output is its own.
                    unsafe { elementwise(*op, alpha, elements) };
                    results
                };
                for isa in Isa::all() {
                    prop_assert_eq!(results(isa), results(Isa::BASELINE), "{:?} {:?}", op, isa);
                }
            }
        }
    }
}
