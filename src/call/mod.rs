//! A call, which is an operation on arrays with checked arguments, and the plan for it. All of it is data: nothing here
//! runs anything.

mod array;
mod by_key;
mod checked;
mod choice;
pub(crate) mod chunk;
mod cost;
mod formula;
pub(crate) mod picoseconds;
pub(crate) mod plan;
mod task;
mod tiles;
mod transfer;

pub(crate) use array::{Array, Extent, Layout, MAX_ARRAYS, MAX_INPUTS, MAX_OUTPUTS, MemoryKind};
pub(crate) use by_key::{HEADER, LEFT, MOST_KERNELS, OUTSIDE, Table, Windows, has_tables};
pub(crate) use checked::{Argument, Arguments, Call, FindKinds};
pub use choice::Reason;
pub(crate) use choice::{Chosen, Devices, Reach, choose, fastest_cores};
pub(crate) use formula::{Binding, Evaluation, Formula};
pub(crate) use task::{ChunkWork, KernelStates, Task, TaskKind};
pub(crate) use tiles::{BUFFER_ALIGNMENT, SECTOR_BYTES, Strides, Tile, TilePlan, state_bytes};
pub(crate) use transfer::{SlotKind, Transfer, Transfers};
