//! Decides, without doing anything: where a call runs, how each array gets there, in which chunks.

use crate::error::Error;
use crate::op::Shape;
use crate::operand::{Call, Operand, Residence};
use crate::route::{Access, Route};
use crate::settings::Placement;
use crate::sum::TILE;
use crate::tuning;

/// Where a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the core that called.
    CallingCore,
    /// On all cores.
    Cores,
    /// On a GPU.
    Gpu,
}

/// Where the placement puts a call. Device memory always means a GPU. Whether one can be had is
/// asked only where it matters: finding out may take a while, the first time.
pub(crate) fn place(placement: Placement, call: &Call, has_gpu: impl FnOnce() -> bool) -> Place {
    match placement {
        Placement::Cpu => cores(call),
        Placement::Gpu => Place::Gpu,
        Placement::Auto if needs_gpu(call) => Place::Gpu,
        Placement::Auto if is_small(call) || !has_gpu() => cores(call),
        Placement::Auto if largest(call) <= core_bytes(call) => Place::CallingCore,
        Placement::Auto => Place::Gpu,
    }
}

/// Where a call runs that no GPU takes.
pub(crate) fn cores(call: &Call) -> Place {
    if is_small(call) { Place::CallingCore } else { Place::Cores }
}

/// Whether waking a core, or a GPU, would cost more than it saves.
fn is_small(call: &Call) -> bool {
    largest(call) <= tuning::CALLING_CORE_BYTES
}

/// Whether an operand is out of the host's reach.
pub(crate) fn needs_gpu(call: &Call) -> bool {
    call.operands().iter().any(|operand| operand.device().is_some())
}

fn largest(call: &Call) -> usize {
    call.n * call.op.element_bytes()
}

fn core_bytes(call: &Call) -> usize {
    let staged = |operand: &Operand| operand.residence == Residence::Pageable;
    let output_too = call.op.shape() == Shape::Elementwise;
    if call.inputs.iter().any(staged) || (output_too && staged(&call.output)) {
        tuning::AUTO_CORE_BYTES_PAGEABLE
    } else {
        tuning::AUTO_CORE_BYTES_PINNED
    }
}

/// Plans a call for the device `runs_on`.
pub(crate) fn route(call: &Call, runs_on: usize) -> Result<Route, Error> {
    let bytes = largest(call);
    let dma = bytes > tuning::MAPPED_BYTES;
    let [a, b] = call.inputs.map(|input| access_of(&input, dma, runs_on));
    let output = match call.op.shape() {
        Shape::Elementwise => access_of(&call.output, dma, runs_on)?,
        Shape::Reduction => Access::TileSums,
    };
    let access = [a?, b?, output];
    Ok(Route { access, chunk: gpu_chunk(call, &access) })
}

fn access_of(operand: &Operand, dma: bool, runs_on: usize) -> Result<Access, Error> {
    Ok(match operand.residence {
        Residence::Device { ordinal } if ordinal != runs_on => {
            return Err(Error::OtherDevice { argument: operand.name, ordinal, runs_on });
        }
        Residence::Device { .. } | Residence::Managed => Access::Resident,
        Residence::Pinned if dma => Access::Dma,
        Residence::Pinned => Access::Mapped,
        Residence::Pageable if dma => Access::StagedDma,
        Residence::Pageable => Access::StagedMapped,
    })
}

/// Arrays that no buffer holds a chunk of are not cut, but for the tiles' sums of a reduction,
/// which have to fit into one.
fn gpu_chunk(call: &Call, access: &[Access; 3]) -> usize {
    let (smallest, largest_chunk) = tuning::DMA_CHUNK_BYTES;
    if !access.iter().any(|access| access.is_dma() || access.is_staged()) {
        return match call.op.shape() {
            Shape::Elementwise => call.n,
            Shape::Reduction => largest_chunk / size_of::<f64>() * TILE,
        };
    }
    let wanted = largest(call) / tuning::PIPELINE_DEPTH;
    wanted.next_power_of_two().clamp(smallest, largest_chunk) / call.op.element_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;
    use proptest::prelude::*;

    const PINNED: Residence = Residence::Pinned;
    const DEVICE: Residence = Residence::Device { ordinal: 0 };

    fn call(op: Op, n: usize, residences: [Residence; 3]) -> Call {
        let operand = |name, residence| Operand { name, address: 0x1000, bytes: n * 4, residence };
        let [a, b, output] = residences;
        Call { op, n, inputs: [operand("a", a), operand("b", b)], output: operand("out", output) }
    }

    #[test]
    fn small_arrays_stay_on_the_calling_core_and_wake_no_driver() {
        let not_asked = || panic!("the GPU was asked for");
        for residence in [Residence::Pageable, PINNED] {
            let call = call(Op::AddF32, 1000, [residence; 3]);
            assert_eq!(place(Placement::Auto, &call, not_asked), Place::CallingCore);
            assert_eq!(place(Placement::Cpu, &call, not_asked), Place::CallingCore);
            assert_eq!(place(Placement::Gpu, &call, not_asked), Place::Gpu);
        }
    }

    #[test]
    fn middling_arrays_stay_on_the_calling_core_or_take_all_where_there_is_no_gpu() {
        let call = call(Op::AddF32, 100_000, [PINNED; 3]);
        assert_eq!(place(Placement::Auto, &call, || true), Place::CallingCore);
        assert_eq!(place(Placement::Auto, &call, || false), Place::Cores);
    }

    #[test]
    fn large_arrays_go_to_the_gpu_unless_told_otherwise() {
        let call = call(Op::DotF32, 100_000_000, [Residence::Pageable; 3]);
        assert_eq!(place(Placement::Auto, &call, || true), Place::Gpu);
        assert_eq!(place(Placement::Auto, &call, || false), Place::Cores);
        assert_eq!(place(Placement::Cpu, &call, || true), Place::Cores);
    }

    #[test]
    fn device_memory_goes_to_the_gpu_however_small() {
        let call = call(Op::AddF32, 1, [Residence::Pageable, DEVICE, PINNED]);
        assert_eq!(place(Placement::Auto, &call, || false), Place::Gpu);
        assert!(needs_gpu(&call));
    }

    #[test]
    fn pinned_arrays_are_never_staged() {
        for n in [1, 1000, 1 << 20, 1 << 30] {
            let route = super::route(&call(Op::AddF32, n, [PINNED; 3]), 0).unwrap();
            assert!(route.access.iter().all(|access| !access.is_staged()), "n = {n}");
        }
    }

    #[test]
    fn arrays_of_another_device_are_named() {
        let call = call(Op::AddF32, 9, [DEVICE, Residence::Device { ordinal: 1 }, DEVICE]);
        let error = super::route(&call, 0).unwrap_err();
        assert!(matches!(error, Error::OtherDevice { argument: "b", ordinal: 1, runs_on: 0 }));
    }

    fn any_residence() -> impl Strategy<Value = Residence> {
        prop_oneof![Just(Residence::Pageable), Just(PINNED), Just(DEVICE), Just(Residence::Managed)]
    }

    proptest! {
        #[test]
        fn chunks_fit_their_buffers_and_hold_whole_tiles(
            n in 1usize..1 << 40,
            a in any_residence(), b in any_residence(), output in any_residence(),
        ) {
            let (_, buffer) = tuning::DMA_CHUNK_BYTES;
            for op in Op::ALL {
                let route = super::route(&call(*op, n, [a, b, output]), 0).unwrap();
                let copied = route.access.iter().any(|access| access.is_dma() || access.is_staged());
                if copied {
                    prop_assert!(route.chunk.min(n) * op.element_bytes() <= buffer);
                }
                if op.shape() == Shape::Reduction {
                    prop_assert!(route.chunk.is_multiple_of(TILE));
                    prop_assert!((route.chunk / TILE).is_power_of_two());
                    prop_assert!(route.chunk / TILE * size_of::<f64>() <= buffer);
                }
            }
        }
    }
}
