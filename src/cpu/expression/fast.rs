//! Loops of functions of f32 that are fast for nearly all elements.
//!
//! A fast loop computes a block without a branch, and marks the elements for which its sequence does not suffice. Most
//! blocks have few such elements. They wait until a vector is full of them, for which the exact loop runs.

use super::loops::{Args, Body, GRAIN, Operand, PerElement};
use crate::arch::{InstructionSet, Isa, Pair, Vectorized, Vectors, stay_a_loop};
use crate::policy::cores;
use gpuvec_math::fast::Halves;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// The most elements of a block.
const BLOCK: usize = 3 * cores::FAST_PART;
/// The most elements that a fast loop computes at once.
const MOST_LANES: usize = 2 * GRAIN;
/// The words with a bit for each element of a block.
const WORDS: usize = BLOCK / 64;

/// True if a function needs more than 16 registers for pairs of vectors. With 16 registers, its loop over pairs takes
/// up to 1.9 times as long as its loop over single vectors. Loops of other functions are no slower over pairs (AMD EPYC
/// with AVX2).
const fn needs_registers(function: &str) -> bool {
    matches!(function.as_bytes(), b"sin" | b"cos" | b"sinh")
}

/// True if four vectors at once are faster than two, since they hide more of the latency of a function's operations.
/// (Four vectors would make other functions about 5 % faster, for 1.2 KB of code each.)
const fn is_long_chain(function: &str) -> bool {
    matches!(function.as_bytes(), b"tan" | b"tanh" | b"acosh")
}

/// A function of f32 that is fast for nearly all elements.
pub(super) trait Fast: PerElement<A = f32, Out = f32> {
    const NAME: &str;
    type Sequence: Halves;
}

/// The loop of a fast function. Without FMA it runs the exact sequence, in f64.
pub(super) fn loop_of<K: Fast>(isa: Isa, args: &Args) {
    isa.run(FastLoop::<K>(args, PhantomData));
}

struct FastLoop<'a, K>(&'a Args, PhantomData<K>);

impl<K: Fast> Vectorized for FastLoop<'_, K> {
    type Result = ();

    #[inline(always)]
    fn run<S: InstructionSet>(self, set: S) {
        if const { S::HAS_FMA } {
            let fast = Loop {
                block: |set: S, block| set.run(FastBody::<K>(block, PhantomData)),
                lanes: const { lanes::<S, K>() },
            };
            run(set, self.0, &fast, |set, args| set.run(Body::<K>(args, PhantomData)));
        } else {
            Body::<K>(self.0, PhantomData).run(set);
        }
    }
}

/// The number of elements that a fast loop computes at once, or a multiple of it.
const fn lanes<S: InstructionSet, K: Fast>() -> usize {
    if S::REGISTERS > 16 && is_long_chain(K::NAME) { MOST_LANES } else { GRAIN }
}

/// A fast loop. The elements of a block must be a multiple of `lanes`.
struct Loop<S> {
    block: fn(S, &mut Block),
    lanes: usize,
}

struct Block {
    x: Operand,
    out: *mut u8,
    len: usize,
    /// A bit for each element. The loop clears it if the result is wrong.
    right: [u64; WORDS],
}

struct FastBody<'a, K>(&'a mut Block, PhantomData<K>);

impl<K: Fast> Vectorized for FastBody<'_, K> {
    type Result = ();

    #[inline(always)]
    fn run<S: InstructionSet>(self, set: S) {
        if S::REGISTERS > 16 && K::Sequence::ARE_TWO {
            body_ahead::<K, _>(Pair(set.machine()), self.0);
        } else if const { lanes::<S, K>() == MOST_LANES } {
            fast_body::<K, _>(Pair(Pair(set.machine())), self.0);
        } else if S::REGISTERS <= 16 && const { needs_registers(K::NAME) } {
            fast_body::<K, _>(set.machine(), self.0);
        } else {
            fast_body::<K, _>(Pair(set.machine()), self.0);
        }
    }
}

/// Computes the results of one vector after the other.
#[inline(always)]
fn fast_body<K: Fast, M: Vectors>(m: M, block: &mut Block) {
    for start in (0..block.len).step_by(M::LANES) {
        let middle = K::Sequence::begin(&m, m.load(block.inputs::<M>(start)));
        block.store(&m, start, K::Sequence::finish(&m, middle));
        stay_a_loop();
    }
}

/// Does the same, but begins the next vector before it finishes one.
#[inline(always)]
fn body_ahead<K: Fast, M: Vectors>(m: M, block: &mut Block) {
    let last = block.len - M::LANES;
    let mut next = K::Sequence::begin(&m, m.load(block.inputs::<M>(0)));
    for start in (0..=last).step_by(M::LANES) {
        let middle = next;
        next = K::Sequence::begin(&m, m.load(block.inputs::<M>(last.min(start + M::LANES))));
        block.store(&m, start, K::Sequence::finish(&m, middle));
        stay_a_loop();
    }
}

/// Runs the exact loop on an operand, and writes the results to an address, for a number of elements. A `dyn Fn`, so
/// that its callers are compiled once.
type RunExact<'a> = &'a dyn Fn(Operand, *mut u8, usize);

/// Writes all results. The exact loop replaces the wrong results of the fast loop, such as the results for NaNs.
#[inline(never)]
fn run<S: InstructionSet>(set: S, args: &Args, fast: &Loop<S>, exact: fn(S, &Args)) {
    let Args { operands: [x, ..], out, len, .. } = *args;
    let rest = len % fast.lanes;
    let len = len - rest;
    let place = |start: usize| out.wrapping_add(start * size_of::<f32>());
    let run_exact: RunExact<'_> = &|x, out, len| {
        let [_, b, c] = args.operands;
        exact(set, &Args { operands: [x, b, c], out, len, ..*args });
    };
    let run_grain = |x, out| {
        run_rest(x, out, |x, out| {
            let [_, b, c] = args.operands;
            run(set, &Args { operands: [x, b, c], out, len: MOST_LANES, ..*args }, fast, exact);
        });
    };
    if x.mask == 0 {
        return repeat(len + rest, out, |out| run_grain(x, out));
    }
    let mut waiting = Waiting { inputs: [1.0; GRAIN], places: [ptr::null_mut(); GRAIN], count: 0 };
    let mut inputs = MaybeUninit::<[f32; BLOCK]>::uninit();
    let (mut start, mut most) = (0, cores::FAST_PART);
    while start < len {
        let count = most.min(len - start);
        let mut block_x = x.from(start);
        if block_x.pointer == place(start) {
            // The results replace the inputs, which the exact loop may need.
            let copy = inputs.as_mut_ptr().cast::<f32>();
            // SAFETY: the arguments promise `count` elements, and a block has room for them.
            unsafe { copy.copy_from_nonoverlapping(block_x.pointer.cast(), count) };
            block_x.pointer = copy.cast();
        }
        let mut block = Block { x: block_x, out: place(start), len: count, right: [u64::MAX; _] };
        (fast.block)(set, &mut block);
        let crowded = block.repair(&mut waiting, S::CHUNKS.long, run_exact);
        start += count;
        most = BLOCK;
        if 2 * crowded > count {
            // The next elements probably need the exact loop, too.
            for _ in 0..cores::FAST_EXACT_PARTS {
                let count = cores::FAST_PART.min(len - start);
                run_exact(x.from(start), place(start), count);
                start += count;
            }
            most = cores::FAST_PART;
        }
    }
    waiting.finish(S::CHUNKS.long, run_exact);
    if rest != 0 {
        run_grain(x.from(len), place(len));
    }
}

/// Runs a loop on the [`GRAIN`] elements of a uniform operand, and repeats the results.
fn repeat(len: usize, out: *mut u8, run: impl FnOnce(*mut u8)) {
    run(out);
    let results = out.cast::<[f32; GRAIN]>();
    for grain in 1..len / GRAIN {
        // SAFETY: the arguments of `run` promise room for `len` results; these are among them.
        unsafe { results.add(grain).copy_from_nonoverlapping(results, 1) };
    }
}

/// Runs a loop that takes [`MOST_LANES`] elements on the last [`GRAIN`] elements, twice.
fn run_rest(x: Operand, out: *mut u8, run: impl FnOnce(Operand, *mut u8)) {
    let mut results = [[0.0_f32; GRAIN]; 2];
    // SAFETY: `run`'s arguments promise these elements and room for as many.
    unsafe {
        let inputs = [x.pointer.cast::<[f32; GRAIN]>().read(); 2];
        let x = Operand { pointer: inputs.as_ptr().cast(), mask: usize::MAX };
        run(x, results.as_mut_ptr().cast());
        out.cast::<[f32; GRAIN]>().write(results[0]);
    }
}

impl Block {
    /// The vector of inputs that begins at an element.
    #[inline(always)]
    fn inputs<M: Vectors>(&self, start: usize) -> &M::Elements {
        debug_assert!(start + M::LANES <= self.len);
        // SAFETY: the arguments of `run` promise these elements, which nothing changes.
        unsafe { &*self.x.from(start).pointer.cast() }
    }

    /// Stores the vector of results that begins at an element, and the bits of the right ones.
    #[inline(always)]
    fn store<M: Vectors>(&mut self, m: &M, start: usize, (y, is_right): (M::F32, M::Bool)) {
        debug_assert!(start + M::LANES <= self.len);
        let out = self.out.wrapping_add(start * size_of::<f32>());
        let right = self.right.as_mut_ptr().cast::<M::Lanes>();
        // SAFETY: the arguments of `run` promise room for these results, to which nothing else refers; there is a bit
        // for each.
        unsafe {
            m.store(y, &mut *out.cast());
            right.add(start / M::LANES).write(m.holding(is_right));
        }
    }

    /// A bit for each word of `right`, set if some bit of the word is clear. Branches would often be mispredicted.
    fn words_with_wrong(&self) -> u32 {
        let words = self.right.iter().enumerate();
        words.fold(0, |all, (i, right)| all | u32::from(*right != u64::MAX) << i)
    }

    /// Computes wrong results anew: runs the exact loop at once where many are close together, and makes other elements
    /// wait. Returns the number of elements for which it ran. The exact loop takes a multiple of `lanes` elements.
    fn repair(&self, waiting: &mut Waiting, lanes: usize, run_exact: RunExact<'_>) -> usize {
        let place = |element: usize| self.out.wrapping_add(element * size_of::<f32>());
        let (mut words, mut crowded) = (self.words_with_wrong(), 0);
        while words != 0 {
            let i = words.trailing_zeros() as usize;
            let (first, mut wrong) = (64 * i, !self.right[i]);
            words &= words - 1;
            if is_crowded(wrong) {
                let more = self.right[i + 1..].iter().take_while(|right| is_crowded(!**right));
                let end = i + 1 + more.count();
                words &= !0 << end;
                let len = self.len.min(64 * end) - first;
                run_exact(self.x.from(first), place(first), len);
                crowded += len;
                continue;
            }
            while wrong != 0 {
                let element = first + wrong.trailing_zeros() as usize;
                // SAFETY: one of the block's elements.
                let input = unsafe { self.x.from(element).pointer.cast::<f32>().read() };
                waiting.add(input, place(element));
                if waiting.count == GRAIN {
                    waiting.finish(lanes, run_exact);
                }
                wrong &= wrong - 1;
            }
        }
        crowded
    }
}

/// True if more than a quarter of 64 results are wrong. The exact loop then computes all 64.
#[inline(never)]
fn is_crowded(wrong: u64) -> bool {
    wrong.count_ones() > 16
}

/// Elements that wait for the exact loop: their inputs, and the places of their results.
struct Waiting {
    inputs: [f32; GRAIN],
    places: [*mut f32; GRAIN],
    count: usize,
}

impl Waiting {
    fn add(&mut self, input: f32, place: *mut u8) {
        self.inputs[self.count] = input;
        self.places[self.count] = place.cast();
        self.count += 1;
    }

    /// Computes the results of all waiting elements by the exact loop, which takes a multiple of `lanes` elements.
    #[inline(never)]
    fn finish(&mut self, lanes: usize, run_exact: RunExact<'_>) {
        let mut results = [0.0_f32; GRAIN];
        let inputs = Operand { pointer: self.inputs.as_ptr().cast(), mask: usize::MAX };
        let count = self.count.next_multiple_of(lanes);
        run_exact(inputs, results.as_mut_ptr().cast(), count);
        for (place, result) in self.places[..self.count].iter().zip(results) {
            // SAFETY: one of the elements of `run`'s output, for which its arguments promise room.
            unsafe { place.write(result) };
        }
        self.count = 0;
    }
}
