//! The kernels, by name: gpuvec's table of operations, one element after the other, and copies. Kernels of
//! other names are expressions'.

use crate::codes::{Code, ILLEGAL_ADDRESS, MISALIGNED_ADDRESS};
use crate::faults::violate;
use crate::memory::reach_by_kernel;
use crate::timing::{self, Direction};
use crate::{expression, flags};
use gpuvec_exact::{Guards, Kind, State, accumulate};
use gpuvec_ops::{Accumulator, Element, Elementwise, Exact, Fold, Op, Operation, Step, Visitor};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A kernel.
#[derive(Clone)]
pub(crate) enum Kernel {
    /// Does nothing.
    Probe,
    /// Computes an operation.
    Compute(Op),
    /// Copies bytes.
    Copy,
    /// Computes an expression.
    Expression(Arc<gpuvec_emulator::Kernel>),
}

/// Returns all kernels with their names, except kernels of expressions.
fn all() -> impl Iterator<Item = (&'static str, Kernel)> {
    let computing = |op: &Op| (op.kernel(), Kernel::Compute(*op));
    Op::ALL.iter().map(computing).chain([
        ("probe", Kernel::Probe),
        ("empty", Kernel::Probe),
        ("copy_bytes", Kernel::Copy),
    ])
}

/// Returns the kernels of a text, with their names.
pub(crate) fn load(text: &str) -> Result<Vec<(String, Kernel)>, Code> {
    let names = text.split(".visible .entry ").skip(1).filter_map(|rest| rest.split('(').next());
    let kernel = |name: &str| {
        let known = all().find(|(known, _)| *known == name).map(|(_, kernel)| Ok(kernel));
        let compile = || {
            timing::compile();
            expression::load(text).map(|kernel| Kernel::Expression(Arc::new(kernel)))
        };
        let kernel = known.unwrap_or_else(compile)?;
        Ok((name.to_owned(), kernel))
    };
    names.map(kernel).collect()
}

/// The warps of a block.
const WARPS: usize = 8;

/// The elements of a reduction that a warp takes at once.
const RUN: usize = 4096;

/// The levels of a window of exact sums.
const LEVELS: usize = 3;

/// Words of 16 bytes of a reduction's scratch memory, which are zero between kernels.
const SCRATCH: usize = 65_536 / size_of::<u128>();

/// The number of kernels that summed by integers alone.
static INTEGER_SUMS: AtomicUsize = AtomicUsize::new(0);

/// Counts the kernels that summed by integers alone.
pub(crate) fn integer_sums() -> usize {
    INTEGER_SUMS.load(Ordering::Relaxed)
}

impl Kernel {
    /// Returns the words of 64 bits of each parameter.
    pub(crate) fn words_of_parameters(&self) -> Vec<usize> {
        let behind = match self {
            Kernel::Probe => 0,
            Kernel::Expression(kernel) => return kernel.words_of_parameters().to_vec(),
            Kernel::Compute(op) if matches!(op.step(), Step::Reduce(_)) => 6,
            Kernel::Compute(_) | Kernel::Copy => 3,
        };
        vec![1; self.input_parameters() + behind]
    }

    /// Returns the number of parameters for inputs, or of all words of an expression's parameters.
    fn input_parameters(&self) -> usize {
        match self {
            Kernel::Probe => 0,
            Kernel::Compute(op) => op.inputs() + usize::from(op.has_alpha()),
            Kernel::Copy => 1,
            Kernel::Expression(kernel) => kernel.words_of_parameters().iter().sum(),
        }
    }

    /// Runs the kernel with `warps` warps.
    pub(crate) fn run(&self, given: &[u64], warps: usize) -> Result<(), Code> {
        timing::begin();
        let (inputs, given_behind) = given.split_at(self.input_parameters());
        let mut behind = [0; 6];
        behind.iter_mut().zip(given_behind).for_each(|(parameter, &value)| *parameter = value);
        let [out, n, flags, ..] = behind.map(|parameter| parameter as usize);
        match self {
            Kernel::Probe => return Ok(()),
            Kernel::Expression(kernel) => {
                let flags = expression::run(kernel, given, warps / WARPS)?;
                return signal_completion(flags as usize, warps);
            }
            Kernel::Compute(op) => {
                let arrays = [0, op.inputs() - 1].map(|input| inputs[input] as usize);
                let alpha = if op.has_alpha() { inputs[op.inputs()] } else { 0 };
                op.visit(alpha, Run { arrays, behind, blocks: warps / WARPS })?;
            }
            Kernel::Copy => copy(inputs[0] as usize, out, n)?,
        }
        signal_completion(flags, warps)
    }
}

/// Runs an operation's kernel.
struct Run {
    /// The addresses of the inputs: twice the same, where there is one.
    arrays: [usize; 2],
    /// The parameters behind those for inputs.
    behind: [u64; 6],
    blocks: usize,
}

impl Visitor for Run {
    type Result = Result<(), Code>;

    fn elementwise<O: Elementwise>(self, op: O) -> Result<(), Code> {
        let [out, n, ..] = self.behind.map(|parameter| parameter as usize);
        let at = self.inputs::<O>()?;
        timing::access(Direction::Out, out, n * size_of::<O::Element>());
        let out = array::<O::Element>(out, n, "out")?;
        for i in 0..n {
            let (x, y) = at(i);
            // SAFETY: `array` found `n` elements. Another thread can use them only if the host
            // program has a race, which the tests are to detect.
            unsafe { out.add(i).write(op.apply(x, y).canonical()) };
        }
        Ok(())
    }

    fn fold<O: Fold>(self, op: O) -> Result<(), Code> {
        let at = self.inputs::<O>()?;
        let add = |state: &mut _, run: Range<usize>| {
            run.map(&at).for_each(|(x, y)| op.fold(state, x, y));
        };
        self.reduce::<O::Accumulator>(add, |words, state, is_first| {
            if is_first {
                *words = *state;
            } else {
                O::Accumulator::merge(words, state);
            }
        })
    }

    fn exact<O: Exact>(self, _: O) -> Result<(), Code> {
        let [.., mode] = self.behind;
        let by_integers = mode == 1 && size_of::<O::Element>() == size_of::<f32>();
        INTEGER_SUMS.fetch_add(by_integers.into(), Ordering::Relaxed);
        let at = self.inputs::<O>()?;
        let add = |state: &mut State<_>, run: Range<usize>| {
            let terms: Vec<_> = run.map(&at).map(|(x, y)| O::Kind::term_of(x, y)).collect();
            if by_integers {
                terms.into_iter().for_each(|term| state.deposit(term));
            } else {
                accumulate::<O::Kind, LEVELS>(state, &terms, Guards::ALL);
            }
        };
        self.reduce::<O::Kind>(add, |words, state, _| {
            for (word, &addend) in words.as_mut().iter_mut().zip(state.words().as_ref()) {
                *word = word.wrapping_add(addend);
            }
        })
    }
}

impl Run {
    /// Returns a function that reads an element of each input.
    fn inputs<O: Operation>(&self) -> Result<impl Fn(usize) -> (O::Element, O::Element), Code> {
        let ([a, b], n) = (self.arrays, self.behind[1] as usize);
        for array in &self.arrays[..O::OP.inputs()] {
            timing::access(Direction::In, *array, n * size_of::<O::Element>());
        }
        let (a, b) = (array::<O::Element>(a, n, "a")?, array::<O::Element>(b, n, "b")?);
        // SAFETY: as in `elementwise`.
        Ok(move |i| unsafe { (a.add(i).read(), b.add(i).read()) })
    }

    /// Reduces as the kernels do. The warps of all blocks take runs of elements by turns, and `add` adds each
    /// run to the state of its block. `share` adds that state to the words in the scratch memory. The last
    /// block makes the state or the result from these words, and leaves zeros.
    fn reduce<A: Accumulator>(
        &self, add: impl Fn(&mut A::State, Range<usize>),
        share: impl Fn(&mut A::Words, &A::State, bool),
    ) -> Result<(), Code> {
        let [out, n, _, scratch, result, _] = self.behind.map(|parameter| parameter as usize);
        let scratch = array::<u128>(scratch, SCRATCH, "scratch memory")?;
        // SAFETY: as in `elementwise`; any bytes are words.
        if (0..SCRATCH).any(|word| unsafe { scratch.add(word).read() } != 0) {
            violate("a kernel's scratch memory is not zero");
        }
        let shared = scratch.cast::<A::Words>();
        for block in 0..self.blocks {
            let mut state = A::IDENTITY;
            for warp in block * WARPS..(block + 1) * WARPS {
                for start in (warp * RUN..n).step_by(self.blocks * WARPS * RUN) {
                    add(&mut state, start..n.min(start + RUN));
                }
            }
            // SAFETY: as in `elementwise`; the scratch memory is larger than any state.
            unsafe { share(&mut *shared, &state, block == 0) };
        }
        // SAFETY: as in `elementwise`; the scratch memory is larger than any state, and any bytes are words.
        let words = unsafe { shared.read() };
        match (out, result) {
            // SAFETY: as in `elementwise`.
            (out, 0) => unsafe { array::<A::Words>(out, 1, "out")?.write(words) },
            (0, result) => {
                let result = array::<A::Result>(result, 1, "result")?;
                // SAFETY: as in `elementwise`.
                unsafe { result.write(A::finish(&A::from_words(words))) };
            }
            _ => violate("a kernel has a place for the state and one for the result"),
        }
        // SAFETY: as in `elementwise`.
        unsafe { scratch.write_bytes(0, SCRATCH) };
        Ok(())
    }
}

/// Notes the warps' completion flags, if there are any.
fn signal_completion(flags: usize, warps: usize) -> Result<(), Code> {
    if flags != 0 {
        flags::note(array::<AtomicU32>(flags, warps, "flags")?, warps);
    }
    Ok(())
}

fn copy(from: usize, to: usize, n: usize) -> Result<(), Code> {
    timing::access(Direction::In, from, n);
    timing::access(Direction::Out, to, n);
    let (from, to) = (array::<u8>(from, n, "from")?, array::<u8>(to, n, "to")?);
    // SAFETY: as in `elementwise`.
    unsafe { std::ptr::copy(from, to, n) };
    Ok(())
}

/// Returns the address of an array's elements, if a device can access all of them.
fn array<T>(address: usize, n: usize, name: &str) -> Result<*mut T, Code> {
    let (why, code) = match reach_by_kernel(address, n * size_of::<T>()).map(<*mut u8>::cast::<T>) {
        Some(found) if found.is_aligned() => return Ok(found),
        Some(_) => ("the address is not aligned".to_owned(), MISALIGNED_ADDRESS),
        None => (format!("there are no {n} elements"), ILLEGAL_ADDRESS),
    };
    violate(&format!("a kernel's {name} at {address:#x}: {why}"));
    Err(code)
}
