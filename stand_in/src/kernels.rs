//! The kernels, by name: gpuvec's table of operations, done one element after the other.

use crate::element::Element;
use crate::faults::violate;
use crate::memory::reach;
use crate::op::{AddF32, AddI32, DotF32, Elementwise, Op, Reduction};
use crate::{Code, ILLEGAL_ADDRESS};

// The order of src/sum.rs.
const TILE: usize = 4096;
const LANES: usize = 128;

/// The kernel of that name.
pub(crate) fn find(name: &str) -> Option<Op> {
    Op::ALL.iter().copied().find(|op| op.kernel() == name)
}

/// Runs a kernel over `n` elements at device addresses `a` and `b`, into `out`.
pub(crate) fn run(op: Op, arrays: [usize; 3], n: usize) -> Result<(), Code> {
    match op {
        Op::AddF32 => elementwise(AddF32, arrays, n),
        Op::AddI32 => elementwise(AddI32, arrays, n),
        Op::DotF32 => reduction(DotF32, arrays, n),
    }
}

fn elementwise<O: Elementwise>(op: O, [a, b, out]: [usize; 3], n: usize) -> Result<(), Code> {
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

fn reduction<O: Reduction>(op: O, [a, b, sums]: [usize; 3], n: usize) -> Result<(), Code> {
    let a = array::<O::Element>(a, n, "a")?;
    let b = array::<O::Element>(b, n, "b")?;
    let sums = array::<f64>(sums, n.div_ceil(TILE), "sums")?;
    for tile in 0..n.div_ceil(TILE) {
        let mut lanes = [0.0; LANES];
        for i in tile * TILE..n.min((tile + 1) * TILE) {
            // SAFETY: as in `elementwise`.
            lanes[i % LANES] += unsafe { op.term(a.add(i).read(), b.add(i).read()) };
        }
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] += lanes[lane + half];
            }
            half /= 2;
        }
        // SAFETY: as in `elementwise`; there is a sum for each tile.
        unsafe { sums.add(tile).write(lanes[0]) };
    }
    Ok(())
}

/// Where an array's bytes are, if a device may reach all of them.
fn array<T>(address: usize, n: usize, name: &str) -> Result<*mut T, Code> {
    let found = reach(address, n * size_of::<T>()).filter(|at| at.cast::<T>().is_aligned());
    found.map(<*mut u8>::cast).ok_or_else(|| {
        violate(&format!("a kernel's {name} at {address:#x}: {n} elements are not there"));
        ILLEGAL_ADDRESS
    })
}
