//! Launches the kernels of elementwise calls.

use super::device_view::DeviceViews;
use super::enqueue::{self, Contents, Launch, input_parameters};
use super::grid;
use super::kernels::{Form, MAX_STRIDED_PARAMETERS, packs};
use super::reduce_axes::Target;
use crate::call::{Evaluation, Task};
use crate::error::Error;
use arrayvec::ArrayVec;
use gpuvec_ptx::Order;

/// Queues a copy, or the kernel of an elementwise task, whose first `inputs` arrays are inputs. Contiguous arrays have a
/// kernel of their own. Returns the number of warps that will signal completion by the flags.
///
/// # Safety
/// As [`enqueue::enqueue`].
pub(super) unsafe fn launch(
    target: &Target<'_>, task: Task<'_>, mut placed: DeviceViews, inputs: usize,
) -> Result<u32, Error> {
    let Target { device, stream, flags, .. } = *target;
    let block_limit = target.block_limits.of(task);
    placed.merge();
    let (arrays, n) = (placed.addresses(), placed.elements());
    if let (Task::Copy, true, &[from, to]) = (task, target.copies_by_driver, &arrays[..]) {
        // SAFETY: this function's promise.
        return unsafe { enqueue::copy(device, stream, from, to, n) }.map(|()| 0);
    }
    if placed.is_contiguous() {
        let (arrays, contents) = (&arrays[..], Contents::Elements);
        let launch = Launch { task, arrays, inputs, first: 0, n, contents, block_limit, flags };
        // SAFETY: this function's promise.
        return unsafe { enqueue::enqueue(device, stream, launch) };
    }
    let Task::Evaluate(Evaluation { formula, bindings }) = task else {
        return Err(Error::Internal { text: "a copy with strides" });
    };
    let [pack, packs_per_thread] = packs(task)?;
    let variant = placed.variant(bindings, pack);
    let mut parameters: ArrayVec<u64, MAX_STRIDED_PARAMETERS> =
        input_parameters(task, &arrays[..inputs]).into_iter().collect();
    parameters.extend(arrays[inputs..].iter().copied());
    let number = placed.add_shape(&mut parameters, bindings, variant);
    let blocks = match variant.order {
        Order::Tiles { .. } => grid::of_tiles(number, block_limit),
        Order::Vectors { .. } if placed.are_broadcast(inputs) => {
            let packs = packs_per_thread.max(device.policy.vectors_of_writers);
            grid::of_packs(n, variant.items, packs, block_limit)
        }
        _ => grid::of_packs(n, variant.items, packs_per_thread, block_limit),
    };
    // SAFETY: this function's promise; the variant has these parameters.
    unsafe {
        let form = Form::Strided(variant);
        device.kernels.launch_form(formula, form, blocks, stream, &mut parameters, None)?;
    }
    Ok(0)
}
