//! The kernels of elementwise programs on arrays of any strides.
//!
//! A kernel is written for a [`Variant`]: shapes and strides are parameters. Behind the addresses of the outputs the
//! parameters hold:
//!
//! | parameters | hold |
//! |---|---|
//! | three for each axis but the first | its length, and the multiplier and the shift that divide by it |
//! | one for each axis, of each declared input and then of each output | the array's stride in bytes |
//! | for tiles | the lengths of the two innermost axes |
//! | then | the number of elements, of vectors or of tiles: below 2^31 |
//! | | the address of the warps' completion flags, or 0 |
//!
//! The strides of scalars are ignored. In kernels whose threads compute vectors, the innermost length is in vectors, and
//! the innermost strides are ignored. In kernels whose blocks compute tiles, the divisors of the two innermost axes are
//! for their lengths in tiles.

use crate::elements::Elements;
use crate::elementwise::outputs;
use crate::grid::Grid;
use crate::kernel::{Kernel, elementwise_text};
use crate::partitioned::PartitionedProgram;
use crate::policy::BLOCKS_WITH_ADDRESSES;
use crate::shared_tile;
use crate::strided_loop::{Order, StridedLoop, Variant};
use crate::writer::{Class, Writer};
use gpuvec_expr::Program;

/// Writes a variant of a program's kernel. A thread computes as many tiles as in the kernel for contiguous arrays.
pub(crate) fn kernel(
    name: &str, program: &Program, variant: Variant, tiles_per_thread: usize,
    partitioned: Option<&PartitionedProgram<'_>>,
) -> Kernel {
    let w = &Writer::new();
    let elements = Elements::new(program, w, partitioned);
    let strided = StridedLoop::new(program, w, variant, &elements, &outputs(w, program));
    let behind = match variant.order {
        Order::Tiles { .. } => strided.parameters + 2,
        _ => strided.parameters,
    };
    let (n, flags) = (w.parameter(&"p", behind), behind + 1);
    let grid = Grid::new(w);
    let i = w.register(Class::B64);
    let mut declarations = String::new();
    match variant.order {
        Order::Vectors { .. } => strided.vectors(&grid, i, n),
        Order::Flat { .. } | Order::Apart => strided.elements(&grid, i, n),
        Order::Tiles { side, .. } => {
            let lengths = [0, 1].map(|axis| w.parameter(&"p", strided.parameters + axis));
            shared_tile::write(&strided, &grid, n, side, lengths);
            let across = strided.inputs.iter().filter(|input| input.is_across);
            shared_tile::declare(&mut declarations, across.map(|input| input.array), side);
        }
    }
    grid.signal_completion(w, flags);
    let text = elementwise_text(
        name,
        program,
        partitioned,
        w,
        &declarations,
        flags,
        BLOCKS_WITH_ADDRESSES,
    );
    Kernel::of_text(name, text, [variant.items, tiles_per_thread], BLOCKS_WITH_ADDRESSES)
}
