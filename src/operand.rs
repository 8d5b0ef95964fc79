//! Checked arguments: where each array is, how long it is, and what memory it is in. Data only.

use crate::op::Op;

/// What kind of memory an array is in, and how a GPU would address it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residence {
    /// Ordinary host memory: no GPU sees it.
    Pageable,
    /// Page-locked host memory, whoever locked it: GPUs reach it across the bus.
    Pinned,
    /// Managed memory: host and devices see it at the same address.
    Managed,
    /// Memory of one device, which the host does not see.
    Device {
        /// Which device.
        ordinal: usize,
    },
}

/// One array argument that has passed every check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    /// The argument's name in the header.
    pub(crate) name: &'static str,
    /// Where the array begins.
    pub(crate) address: usize,
    /// Its length in bytes.
    pub(crate) bytes: usize,
    /// The memory it is in.
    pub(crate) residence: Residence,
}

impl Operand {
    /// The device that holds the array, if one does.
    #[must_use]
    pub(crate) fn device(&self) -> Option<usize> {
        match self.residence {
            Residence::Device { ordinal } => Some(ordinal),
            _ => None,
        }
    }
}

/// One checked call: what to compute, from which arrays, into which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The operation.
    pub(crate) op: Op,
    /// Elements in each input; not 0.
    pub(crate) n: usize,
    /// The input arrays, `n` elements each.
    pub(crate) inputs: [Operand; 2],
    /// The output: `n` elements, or the one value of a reduction.
    pub(crate) output: Operand,
}

impl Call {
    /// The inputs, then the output.
    #[must_use]
    pub(crate) fn operands(&self) -> [Operand; 3] {
        [self.inputs[0], self.inputs[1], self.output]
    }

    /// Whether the output is one of the inputs.
    #[must_use]
    pub(crate) fn in_place(&self) -> bool {
        self.inputs.iter().any(|input| input.address == self.output.address)
    }
}
