//! Launches the kernels of elementwise calls on arrays of any strides.

use super::device::Device;
use super::device_view::{DeviceView, DeviceViews};
use super::driver::CUstream;
use super::enqueue::{self, Addresses, Contents, Part, addresses, input_parameters};
use super::grid;
use super::kernels::{Form, MAX_STRIDED_PARAMETERS, packs};
use crate::call::{Call, Evaluation, Strides, Task, Transfers};
use crate::error::Error;
use arrayvec::ArrayVec;
use gpuvec_axes::View;
use gpuvec_ptx::Order;

/// The addresses at which a device reaches the first elements of the arrays that it uses in place.
pub(super) fn addresses_of_first(
    device: &Device, call: &Call<'_>, strides: Strides<'_>, transfers: &Transfers,
) -> Result<Addresses, Error> {
    let lowest = addresses(device, call, transfers)?;
    let first = |(lowest, view): (u64, &View)| lowest + (view.first - view.lowest) as u64;
    Ok(lowest.into_iter().zip(strides.views()).map(first).collect())
}

/// Queues a call on a stream of a device, whose context is current and which reaches all arrays in place.
///
/// # Safety
/// The stream must be the device's. The arrays must be valid until it has done the work.
pub(super) unsafe fn queue(
    device: &Device, stream: CUstream, call: &Call<'_>, strides: Strides<'_>,
    transfers: &Transfers, block_limit: u32,
) -> Result<(), Error> {
    let first = addresses_of_first(device, call, strides, transfers)?;
    let tiles = strides.tiles_in_place(call.task());
    for tile in (0..tiles.count()).map(|number| tiles.at(number)) {
        let mut placed = DeviceViews::new(tile.kept().lengths());
        for (first, view) in first.iter().zip(strides.views()) {
            placed.push(DeviceView::in_place(*first, &tile, view));
        }
        let inputs = call.inputs().len();
        // SAFETY: this function's promise, and the call's.
        unsafe { launch(device, stream, call.task(), placed, inputs, block_limit)? };
    }
    Ok(())
}

/// Queues the kernel of an elementwise task, whose first `inputs` arrays are inputs. Contiguous arrays have a kernel of
/// their own.
///
/// # Safety
/// As [`enqueue::enqueue`].
pub(super) unsafe fn launch(
    device: &Device, stream: CUstream, task: Task<'_>, mut placed: DeviceViews, inputs: usize,
    block_limit: u32,
) -> Result<(), Error> {
    placed.merge();
    let (arrays, n) = (placed.addresses(), placed.elements());
    let Task::Evaluate(Evaluation { formula, bindings }) = task else {
        return Err(Error::Internal { text: "a copy with strides" });
    };
    if placed.is_contiguous() {
        let (arrays, contents) = (&arrays[..], Contents::Elements);
        let part = Part { task, arrays, inputs, first: 0, n, contents, block_limit, flags: None };
        // SAFETY: this function's promise.
        return unsafe { enqueue::enqueue(device, stream, part) }.map(|_| ());
    }
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
        device.kernels.launch_form(formula, form, blocks, stream, &mut parameters, None)
    }
}
