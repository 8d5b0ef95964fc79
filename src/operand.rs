//! Checked arguments: where each array is, how long it is, and what memory it is in. Data only.

use crate::op::{Op, Shape};

/// What kind of memory an array is in, and how a GPU would address it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residence {
    /// Ordinary host memory: no GPU sees it.
    Pageable,
    /// Page-locked host memory, whoever locked it: GPUs reach it across the bus.
    Pinned,
    /// Page-locked host memory that was locked in several parts: no copy may go across their ends.
    PinnedInParts,
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

/// What is done with the arrays of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// An operation, with the bits of the number that it multiplies by, if it does.
    Compute(Op, u64),
    /// A copy of bytes.
    Copy,
}

impl Task {
    /// What becomes of the inputs.
    pub(crate) fn shape(self) -> Shape {
        match self {
            Task::Compute(op, _) => op.shape(),
            Task::Copy => Shape::Elementwise,
        }
    }

    /// The size of an element of its inputs, in bytes.
    pub(crate) fn element_bytes(self) -> usize {
        match self {
            Task::Compute(op, _) => op.element_bytes(),
            Task::Copy => 1,
        }
    }

    /// The size of an element of its output, in bytes.
    pub(crate) fn output_bytes(self) -> usize {
        match self {
            Task::Compute(op, _) => op.output_bytes(),
            Task::Copy => 1,
        }
    }

    /// Whether the output may be an input, or an input's first element: if their types are one.
    pub(crate) fn may_be_in_place(self) -> bool {
        match self {
            Task::Compute(op, _) => op.output_bytes() == op.element_bytes(),
            Task::Copy => true,
        }
    }
}

/// One checked call: what to do, with which arrays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// What is done.
    pub(crate) task: Task,
    /// Elements in each input; not 0.
    pub(crate) n: usize,
    /// The input arrays, `n` elements each. The first is there always.
    pub(crate) inputs: [Option<Operand>; 2],
    /// The output: `n` elements, or the one value of a reduction.
    pub(crate) output: Operand,
}

impl Call {
    /// The inputs, then the output, each in its slot.
    #[must_use]
    pub(crate) fn slots(&self) -> [Option<Operand>; 3] {
        [self.inputs[0], self.inputs[1], Some(self.output)]
    }

    /// The inputs, then the output.
    pub(crate) fn operands(&self) -> impl Iterator<Item = Operand> {
        self.slots().into_iter().flatten()
    }

    /// The device that the work is nearest to: that of the output, else of an input, if any.
    #[must_use]
    pub(crate) fn device(&self) -> Option<usize> {
        let [a, b, output] = self.slots().map(|operand| operand?.device());
        output.or(a).or(b)
    }

    /// Whether this is a copy that a stream leaves to the driver: from or to a device, and not of
    /// memory that was page-locked in parts. From host to host the driver makes the caller wait.
    #[must_use]
    pub(crate) fn is_drivers_copy(&self) -> bool {
        let in_parts = |operand: Operand| operand.residence == Residence::PinnedInParts;
        self.task == Task::Copy && self.device().is_some() && !self.operands().any(in_parts)
    }

    /// Whether the output is one of the inputs.
    #[must_use]
    pub(crate) fn in_place(&self) -> bool {
        self.inputs.iter().flatten().any(|input| input.address == self.output.address)
    }
}
