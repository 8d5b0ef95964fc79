//! The kernels, by name: gpuvec's table of operations, one element after the other, copies, and the
//! end of reductions.

use crate::faults::violate;
use crate::memory::reach_by_kernel;
use crate::{Code, ILLEGAL_ADDRESS, flags};
use gpuvec_ops::{
    Accumulator, Element, Elementwise, GROUP, LANES, Op, Reduction, StateOf, TILE, Visitor,
    merge_in_order,
};
use std::sync::atomic::AtomicU32;

/// A kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Does nothing.
    Probe,
    /// Computes an operation: elements, or the states of tiles.
    Compute(Op),
    /// Copies bytes.
    Copy,
    /// Merges each group of an operation's states into one.
    Fold(Op),
    /// Merges an operation's states into its result.
    Finish(Op),
}

/// Returns all kernels with their names, in the order of their handles. Operations with the same
/// accumulator share their merging kernels.
fn all() -> impl Iterator<Item = (String, Kernel)> {
    let merging = |op: Op| {
        let accumulator = op.accumulator()?;
        let finish = format!("finish_{}_{}", accumulator.name, op.output_name());
        Some([
            (format!("fold_{}", accumulator.name), Kernel::Fold(op)),
            (finish, Kernel::Finish(op)),
        ])
    };
    let computing = |op: &Op| (op.kernel().to_owned(), Kernel::Compute(*op));
    let others = [("probe".to_owned(), Kernel::Probe), ("copy_bytes".to_owned(), Kernel::Copy)];
    let merging = Op::ALL.iter().filter_map(move |op| merging(*op)).flatten();
    Op::ALL.iter().map(computing).chain(others).chain(merging)
}

/// Returns the kernel of that name.
pub(crate) fn find(name: &str) -> Option<Kernel> {
    all().find(|(known, _)| *known == name).map(|(_, kernel)| kernel)
}

/// Returns a kernel's number, from 0.
pub(crate) fn number(kernel: Kernel) -> Option<usize> {
    all().position(|(_, known)| known == kernel)
}

/// Returns the kernel of that number.
pub(crate) fn at(number: usize) -> Option<Kernel> {
    all().nth(number).map(|(_, kernel)| kernel)
}

/// The maximum number of a kernel's parameters.
pub(crate) const PARAMETERS: usize = 6;

impl Kernel {
    /// Returns the number of parameters, each of at most 64 bits.
    pub(crate) fn parameters(self) -> usize {
        match self {
            Kernel::Probe => 0,
            Kernel::Compute(op) if op.has_alpha() => 6,
            Kernel::Compute(_) | Kernel::Copy => 5,
            _ => 3,
        }
    }

    /// Runs the kernel with `warps` warps; missing parameters are zeros.
    pub(crate) fn run(self, parameters: [u64; PARAMETERS], warps: usize) -> Result<(), Code> {
        let [a, b, out, n, flags, alpha] = parameters;
        let [first, second, third] = [a, b, out].map(|parameter| parameter as usize);
        match self {
            Kernel::Probe => Ok(()),
            Kernel::Compute(op) => {
                op.visit(alpha, Run { arrays: [first, second, third], n: n as usize })?;
                signal_completion(flags as usize, warps)
            }
            Kernel::Copy => {
                copy(first, third, n as usize)?;
                signal_completion(flags as usize, warps)
            }
            Kernel::Fold(op) => {
                op.visit(0, Merge { is_last: false, from: first, to: second, count: third })
            }
            Kernel::Finish(op) => {
                op.visit(0, Merge { is_last: true, from: first, to: second, count: third })
            }
        }
    }
}

/// Runs an operation over `n` elements at device addresses `a` and `b`, into the third.
struct Run {
    arrays: [usize; 3],
    n: usize,
}

impl Visitor for Run {
    type Result = Result<(), Code>;

    fn elementwise<O: Elementwise>(self, op: O) -> Result<(), Code> {
        let ([a, b, out], n) = (self.arrays, self.n);
        let a = array::<O::Element>(a, n, "a")?;
        let b = array::<O::Element>(b, n, "b")?;
        let out = array::<O::Element>(out, n, "out")?;
        for i in 0..n {
            // SAFETY: `array` found `n` elements. Another thread can use them only if the host
            // program has a race, which the tests are to detect.
            unsafe { out.add(i).write(op.apply(a.add(i).read(), b.add(i).read()).canonical()) };
        }
        Ok(())
    }

    fn reduction<O: Reduction>(self, op: O) -> Result<(), Code> {
        let ([a, b, states], n) = (self.arrays, self.n);
        let a = array::<O::Element>(a, n, "a")?;
        let b = array::<O::Element>(b, n, "b")?;
        let states = array::<StateOf<O>>(states, n.div_ceil(TILE), "states")?;
        for tile in 0..n.div_ceil(TILE) {
            let mut lanes = [O::Accumulator::IDENTITY; LANES];
            for i in tile * TILE..n.min((tile + 1) * TILE) {
                // SAFETY: as in `elementwise`.
                let (x, y) = unsafe { (a.add(i).read(), b.add(i).read()) };
                lanes[i % LANES] = op.accumulate::<false>(lanes[i % LANES], x, y);
            }
            let mut half = LANES / 2;
            while half > 0 {
                for lane in 0..half {
                    lanes[lane] = O::Accumulator::merge(lanes[lane], lanes[lane + half]);
                }
                half /= 2;
            }
            // SAFETY: as in `elementwise`; there is a state for each tile.
            unsafe { states.add(tile).write(lanes[0]) };
        }
        Ok(())
    }
}

/// Merges `count` states: each group of them into one, or at last all of them into a result.
struct Merge {
    is_last: bool,
    from: usize,
    to: usize,
    count: usize,
}

impl Visitor for Merge {
    type Result = Result<(), Code>;

    fn elementwise<O: Elementwise>(self, _: O) -> Result<(), Code> {
        violate("an elementwise operation has no states");
        Err(ILLEGAL_ADDRESS)
    }

    fn reduction<O: Reduction>(self, op: O) -> Result<(), Code> {
        let Merge { is_last, from, to, count } = self;
        let from = array::<StateOf<O>>(from, count, "states")?;
        let merged = |first: usize, len: usize| {
            // SAFETY: as in `Run::elementwise`.
            let state = &mut |i| unsafe { from.add(first + i).read() };
            merge_in_order::<O::Accumulator>(len, state)
        };
        if is_last {
            let out = array::<O::Output>(to, 1, "out")?;
            let result = op.finish(merged(0, count)).canonical();
            // SAFETY: as in `Run::elementwise`.
            unsafe { out.write(result) };
            return Ok(());
        }
        let groups = array::<StateOf<O>>(to, count.div_ceil(GROUP), "groups")?;
        for group in 0..count.div_ceil(GROUP) {
            let first = group * GROUP;
            let state = merged(first, GROUP.min(count - first));
            // SAFETY: as in `Run::elementwise`.
            unsafe { groups.add(group).write(state) };
        }
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
    let (from, to) = (array::<u8>(from, n, "from")?, array::<u8>(to, n, "to")?);
    // SAFETY: as in `elementwise`.
    unsafe { std::ptr::copy(from, to, n) };
    Ok(())
}

/// Returns the address of an array's bytes, if a device can access all of them.
fn array<T>(address: usize, n: usize, name: &str) -> Result<*mut T, Code> {
    let found =
        reach_by_kernel(address, n * size_of::<T>()).filter(|at| at.cast::<T>().is_aligned());
    found.map(<*mut u8>::cast).ok_or_else(|| {
        violate(&format!("a kernel's {name} at {address:#x}: there are no {n} elements"));
        ILLEGAL_ADDRESS
    })
}
