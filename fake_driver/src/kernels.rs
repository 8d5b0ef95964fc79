//! The kernels, by name: gpuvec's table of operations, done one element after the other, copies, and
//! the end of reductions.

use crate::element::Element;
use crate::faults::violate;
use crate::memory::reach_by_kernel;
use crate::op::{Elementwise, Op, Reduction, SumOf, Visitor};
use crate::sum::{GROUP, LANES, Sum, TILE};
use crate::{Code, ILLEGAL_ADDRESS, setting};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// A kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Nothing is done.
    Probe,
    /// That of an operation.
    Of(Op),
    /// Bytes are copied.
    Copy,
    /// Each group of f64 sums becomes one.
    FoldF64,
    /// Each group of i64 sums becomes one.
    FoldI64,
    /// f64 sums become an f32.
    FinishF32,
    /// f64 sums become an f64.
    FinishF64,
    /// i64 sums become an i64.
    FinishI64,
}

const OTHERS: [(&str, Kernel); 7] = [
    ("probe", Kernel::Probe),
    ("copy_bytes", Kernel::Copy),
    ("fold_f64", Kernel::FoldF64),
    ("fold_i64", Kernel::FoldI64),
    ("finish_f32", Kernel::FinishF32),
    ("finish_f64", Kernel::FinishF64),
    ("finish_i64", Kernel::FinishI64),
];

/// All of them, by the number of their handle.
fn all() -> impl Iterator<Item = (&'static str, Kernel)> {
    Op::ALL.iter().map(|op| (op.kernel(), Kernel::Of(*op))).chain(OTHERS)
}

/// The kernel of that name.
pub(crate) fn find(name: &str) -> Option<Kernel> {
    all().find(|(known, _)| *known == name).map(|(_, kernel)| kernel)
}

/// A kernel's number, from 0.
pub(crate) fn number(kernel: Kernel) -> Option<usize> {
    all().position(|(_, known)| known == kernel)
}

/// The kernel of that number.
pub(crate) fn at(number: usize) -> Option<Kernel> {
    all().nth(number).map(|(_, kernel)| kernel)
}

/// The most parameters that a kernel has.
pub(crate) const PARAMETERS: usize = 6;

impl Kernel {
    /// How many parameters it has, each of at most 64 bits.
    pub(crate) fn parameters(self) -> usize {
        match self {
            Kernel::Probe => 0,
            Kernel::Of(op) if op.has_alpha() => 6,
            Kernel::Of(_) | Kernel::Copy => 5,
            _ => 3,
        }
    }

    /// Runs it, with these parameters and zeros, as so many warps.
    pub(crate) fn run(self, parameters: [u64; PARAMETERS], warps: usize) -> Result<(), Code> {
        let [a, b, out, n, flags, alpha] = parameters;
        let [first, second, third] = [a, b, out].map(|parameter| parameter as usize);
        match self {
            Kernel::Probe => Ok(()),
            Kernel::Of(op) => {
                op.visit(alpha, Run { arrays: [first, second, third], n: n as usize })?;
                announce(flags as usize, warps)
            }
            Kernel::Copy => {
                copy(first, third, n as usize)?;
                announce(flags as usize, warps)
            }
            Kernel::FoldF64 => fold::<f64>(first, second, third),
            Kernel::FoldI64 => fold::<i64>(first, second, third),
            Kernel::FinishF32 => finish::<f64, f32>(first, second, third, |sum| sum as f32),
            Kernel::FinishF64 => finish::<f64, f64>(first, second, third, |sum| sum),
            Kernel::FinishI64 => finish::<i64, i64>(first, second, third, |sum| sum),
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
            // SAFETY: `array` saw that `n` elements are there. Another thread may hold them only if
            // the host program has a race, which is what this is to show.
            unsafe { out.add(i).write(op.apply(a.add(i).read(), b.add(i).read()).canonical()) };
        }
        Ok(())
    }

    fn reduction<O: Reduction>(self, op: O) -> Result<(), Code> {
        let ([a, b, sums], n) = (self.arrays, self.n);
        let a = array::<O::Element>(a, n, "a")?;
        let b = array::<O::Element>(b, n, "b")?;
        let sums = array::<SumOf<O>>(sums, n.div_ceil(TILE), "sums")?;
        for tile in 0..n.div_ceil(TILE) {
            let mut lanes = [SumOf::<O>::ZERO; LANES];
            for i in tile * TILE..n.min((tile + 1) * TILE) {
                // SAFETY: as in `elementwise`.
                let term = unsafe { op.term(a.add(i).read(), b.add(i).read()) };
                lanes[i % LANES] = lanes[i % LANES].plus(term);
            }
            let mut half = LANES / 2;
            while half > 0 {
                for lane in 0..half {
                    lanes[lane] = lanes[lane].plus(lanes[lane + half]);
                }
                half /= 2;
            }
            // SAFETY: as in `elementwise`; there is a sum for each tile.
            unsafe { sums.add(tile).write(lanes[0]) };
        }
        Ok(())
    }
}

thread_local! {
    static TO_SET: Cell<Option<(*mut AtomicU32, usize)>> = const { Cell::new(None) };
}

/// Notes the warps' completion flags, if there are any. With `FAKE_DRIVER_FLAGS=0` they are never
/// set, as by a kernel that takes too long: whether a host sees them in time is a matter of luck.
fn announce(flags: usize, warps: usize) -> Result<(), Code> {
    if flags != 0 && setting("FAKE_DRIVER_FLAGS", 1) != 0 {
        TO_SET.set(Some((array::<AtomicU32>(flags, warps, "flags")?, warps)));
    }
    Ok(())
}

/// Sets the flags of the kernel that this thread has done, once it counts as done: the host looks at
/// them, and goes on.
pub(crate) fn set_flags() {
    if let Some((flags, warps)) = TO_SET.take() {
        for warp in 0..warps {
            // SAFETY: `array` saw that so many are there.
            unsafe { (*flags.add(warp)).store(1, Ordering::Release) };
        }
    }
}

fn copy(from: usize, to: usize, n: usize) -> Result<(), Code> {
    let (from, to) = (array::<u8>(from, n, "from")?, array::<u8>(to, n, "to")?);
    // SAFETY: as in `elementwise`.
    unsafe { std::ptr::copy(from, to, n) };
    Ok(())
}

/// Neighbours added, level by level.
fn tree<S: Sum>(mut sums: Vec<S>) -> S {
    while sums.len() > 1 {
        sums = sums
            .chunks(2)
            .map(|pair| pair.iter().copied().reduce(S::plus).unwrap_or(S::ZERO))
            .collect();
    }
    sums.first().copied().unwrap_or(S::ZERO)
}

fn fold<S: Sum>(sums: usize, groups: usize, count: usize) -> Result<(), Code> {
    let from = array::<S>(sums, count, "sums")?;
    let to = array::<S>(groups, count.div_ceil(GROUP), "groups")?;
    for group in 0..count.div_ceil(GROUP) {
        let end = count.min((group + 1) * GROUP);
        // SAFETY: as in `elementwise`.
        let part = (group * GROUP..end).map(|i| unsafe { from.add(i).read() }).collect();
        // SAFETY: as above.
        unsafe { to.add(group).write(tree(part)) };
    }
    Ok(())
}

fn finish<S: Sum, T: Element>(
    sums: usize,
    out: usize,
    count: usize,
    round: impl Fn(S) -> T,
) -> Result<(), Code> {
    let from = array::<S>(sums, count, "sums")?;
    let out = array::<T>(out, 1, "out")?;
    // SAFETY: as in `elementwise`.
    let all = (0..count).map(|i| unsafe { from.add(i).read() }).collect();
    // SAFETY: as above.
    unsafe { out.write(round(tree(all)).canonical()) };
    Ok(())
}

/// Where an array's bytes are, if a device may reach all of them.
fn array<T>(address: usize, n: usize, name: &str) -> Result<*mut T, Code> {
    let found =
        reach_by_kernel(address, n * size_of::<T>()).filter(|at| at.cast::<T>().is_aligned());
    found.map(<*mut u8>::cast).ok_or_else(|| {
        violate(&format!("a kernel's {name} at {address:#x}: {n} elements are not there"));
        ILLEGAL_ADDRESS
    })
}
