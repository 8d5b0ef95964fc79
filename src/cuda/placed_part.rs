//! Queues the kernels and copies of part of a call on a stream.

use super::by_key::PlacedTable;
use super::completion::Flags;
use super::device::Device;
use super::device_view::{DeviceView, DeviceViews};
use super::driver::CUstream;
use super::enqueue::{
    self, Addresses, Contents, Launch, enqueue, input_parameters, last_parameter,
};
use super::grid;
use super::kernels::{Form, MAX_STRIDED_PARAMETERS, packs};
use super::part::Part;
use super::reduce_axes::{Partition, Shape, VECTOR_BYTES, WARPS};
use super::scratch::{Lent, Scratch};
use crate::call::plan::BlockLimits;
use crate::call::{Binding, Evaluation, Formula, Task, TaskKind};
use crate::error::Error;
use crate::policy::AxisReductions;
use arrayvec::ArrayVec;
use gpuvec_axes::{Divisor, MAX_AXES, are_columns};
use gpuvec_ptx::{AxisReduction, Order};
use std::ops::Range;

/// The parameters of a kernel for arrays of any strides.
pub(super) type Parameters = ArrayVec<u64, MAX_STRIDED_PARAMETERS>;

/// Part of a call, with the addresses at which a device accesses its arrays, and the stream that is to run it.
pub(super) struct PlacedPart<'a> {
    target: Target<'a>,
    lengths: ArrayVec<usize, MAX_AXES>,
    /// The number of outer axes, which come before the reduced ones.
    kept: usize,
    /// The index of the first element of each result.
    first: usize,
    inputs: &'a [DeviceView],
    /// True if the results have elements.
    has_elements: bool,
    /// True for a chunk of contiguous arrays. Reductions of these have one result.
    is_chunk: bool,
    /// The places for elements, results, or states of results.
    outputs: &'a [DeviceView],
    stores_states: bool,
}

/// The stream for a part's kernels, and the memory and limits for them.
pub(super) struct Target<'a> {
    pub(super) device: &'a Device,
    pub(super) stream: CUstream,
    /// Memory for reductions.
    pub(super) scratch: Option<&'a mut Scratch>,
    /// The table of each kernel of a call by key.
    pub(super) tables: &'a [PlacedTable<'a>],
    pub(super) block_limits: BlockLimits,
    /// Flags by which a part's only kernel signals completion.
    pub(super) flags: Option<Flags>,
    /// True if the driver copies bytes, not a kernel.
    pub(super) copies_by_driver: bool,
}

impl<'a> PlacedPart<'a> {
    /// Part of a call with the views of its inputs and of its outputs.
    ///
    /// # Safety
    /// The stream must be the device's, and the device's context current as long as this is used. Until the stream has
    /// done the work, the device must be able to access the arrays' elements, and nothing else may change them. The
    /// scratch memory and the flags must be the stream's.
    pub(super) unsafe fn new(
        target: Target<'a>, part: &Part<'_>, [inputs, outputs]: [&'a [DeviceView]; 2],
        stores_states: bool,
    ) -> Self {
        PlacedPart {
            target,
            lengths: part.lengths(),
            kept: part.results().len(),
            first: part.first(),
            has_elements: part.has_elements(),
            is_chunk: matches!(part, Part::Chunk { .. }),
            inputs,
            outputs,
            stores_states,
        }
    }

    fn kept(&self) -> Range<usize> {
        0..self.kept
    }

    fn reduced(&self) -> Range<usize> {
        self.kept..self.lengths.len()
    }

    /// The number of elements along axes.
    fn elements(&self, axes: Range<usize>) -> usize {
        self.lengths[axes].iter().product()
    }

    /// Adds the parameters of outer or reduced axes: the divisors, and the strides of the declared inputs and of
    /// `output`.
    fn add_axes(
        &self, parameters: &mut Parameters, axes: Range<usize>, bindings: &[Binding],
        output: Option<&DeviceView>,
    ) {
        for length in self.lengths[axes.clone()].iter().skip(1) {
            // Without elements, a kernel divides by no length.
            let Divisor { multiplier, shift } = Divisor::new((*length).max(1) as u32);
            parameters.extend([*length as u64, multiplier.into(), shift.into()]);
        }
        // A kernel has at least one axis of each kind.
        let missing = usize::from(axes.is_empty());
        let mut add = |array: Option<&DeviceView>| {
            let strides =
                array.map_or(&[0; MAX_AXES][axes.clone()], |array| array.strides(axes.clone()));
            parameters.extend(strides.iter().map(|stride| *stride as u64));
            parameters.extend(std::iter::repeat_n(0, missing));
        };
        let mut arrays = self.inputs.iter();
        for binding in bindings {
            add(if matches!(binding, Binding::Array) { arrays.next() } else { None });
        }
        output.into_iter().for_each(|array| add(Some(array)));
    }

    /// Chooses the partition. Adjacent lanes have adjacent results if these are closer in memory than the elements of
    /// one result, or if a result has too few elements for a block.
    fn partition(
        &self, policy: &AxisReductions, resident_blocks: usize, scratch: usize, formula: &Formula,
        output: &DeviceView,
    ) -> Partition {
        let is_sum_f32 = gpuvec_ptx::template(formula.program()) == Some("sum_f32");
        let shape = Shape {
            policy,
            results: self.elements(self.kept()),
            n: self.elements(self.reduced()),
            resident_blocks,
            scratch,
            state_words: formula.is_exact().then_some(formula.state_bytes / 8),
            stores_states: self.stores_states,
            groups: if is_sum_f32 { WARPS } else { 1 },
        };
        // An array with one element for each result is read once a result, in any order.
        let is_across = |array: &&DeviceView| {
            let [kept, reduced] = [self.kept(), self.reduced()].map(|axes| array.strides(axes));
            reduced.last().is_some_and(|along| *along != 0) && are_columns(kept, reduced)
        };
        match self.inputs.iter().filter(is_across).map(DeviceView::element_bytes).max() {
            Some(bytes) => shape.by_columns(bytes),
            None => {
                let bytes = self.inputs.iter().map(DeviceView::element_bytes).max();
                let by_rows =
                    shape.by_rows(bytes.unwrap_or(1), !formula.is_indexed() && self.has_vectors());
                let has_tiles = shape.groups > 1 && self.is_dense(output);
                if has_tiles { shape.in_tiles(by_rows) } else { by_rows }
            }
        }
    }

    /// True if the results and all their elements are contiguous words of 32 bits, and each array is aligned as a
    /// vector.
    fn is_dense(&self, output: &DeviceView) -> bool {
        let word = size_of::<f32>();
        let n = self.elements(self.reduced());
        let is_dense = |array: &DeviceView, n: usize| {
            array.element_bytes() == word && array.strides(self.kept()) == [(n * word) as isize]
        };
        let follow = |array: &DeviceView| {
            is_dense(array, n)
                && array.strides(self.reduced()) == [word as isize]
                && array.address().is_multiple_of(VECTOR_BYTES as u64)
        };
        is_dense(output, 1) && self.inputs.iter().all(follow)
    }

    /// True if the elements of each result are contiguous in all arrays, and aligned as a vector.
    fn has_vectors(&self) -> bool {
        let vector = VECTOR_BYTES as isize;
        let begins = |array: &DeviceView| {
            let stride = array.strides(self.reduced()).last().copied();
            stride == Some(array.element_bytes() as isize)
                && array.address().is_multiple_of(VECTOR_BYTES as u64)
                && array.strides(self.kept()).iter().all(|stride| stride % vector == 0)
        };
        self.reduced().len() == 1 && self.inputs.iter().all(begins)
    }

    /// Queues the kernels of a task, or its copy. The kernel of the elementwise outputs comes last, since the outputs
    /// may be inputs of the reductions. Sets `wrote` once a kernel that writes outputs is queued. Returns the number of
    /// warps that will signal completion by the flags.
    pub(super) fn queue(mut self, task: Task<'_>, wrote: &mut bool) -> Result<u32, Error> {
        const NO_SCRATCH: Error = Error::Internal { text: "a reduction without memory" };
        let mut warps = 0;
        let (stream, mut scratch) = (self.target.stream, self.target.scratch.take());
        for (number, (task, outputs)) in task.kernels().enumerate() {
            match task.kind() {
                TaskKind::Copy | TaskKind::Elementwise | TaskKind::Mixed => {
                    warps = self.map(task, outputs)?;
                    *wrote = true;
                }
                TaskKind::Grouped => self.add_by_key(task, number)?,
                TaskKind::Reduced => {
                    let scratch = scratch.as_deref_mut().ok_or(NO_SCRATCH)?;
                    let [output] = outputs else { return Err(enqueue::NO_OUTPUT) };
                    let output = &self.outputs[*output];
                    let inputs = self.inputs.iter().map(DeviceView::address).collect();
                    warps = if self.is_chunk {
                        scratch.lend(stream, |lent| self.reduce_all(task, &inputs, output, lent))?
                    } else {
                        scratch.lend_along_axes(stream, |lent| {
                            self.reduce_along_axes(task, &inputs, output, lent)
                        })?
                    };
                    *wrote |= !self.stores_states;
                }
            }
        }
        Ok(warps)
    }

    /// Queues the kernel that reduces all elements to one state or result.
    fn reduce_all(
        &self, task: Task<'_>, inputs: &Addresses, output: &DeviceView, scratch: u64,
    ) -> Result<u32, Error> {
        let mut arrays = inputs.clone();
        arrays.push(output.address() + task.state_offset() as u64);
        let launch = Launch {
            task,
            arrays: &arrays,
            inputs: inputs.len(),
            first: self.first,
            n: self.elements(self.reduced()),
            contents: match self.stores_states {
                true => Contents::State(scratch),
                false => Contents::Result(scratch),
            },
            block_limit: self.target.block_limits.of(task),
            flags: self.target.flags,
        };
        // SAFETY: the promise of `new`.
        unsafe { enqueue(self.target.device, self.target.stream, launch) }
    }

    /// Queues the kernel of a reduction along axes.
    fn reduce_along_axes(
        &self, task: Task<'_>, inputs: &Addresses, output: &DeviceView, scratch: Lent,
    ) -> Result<u32, Error> {
        let Task::Evaluate(Evaluation { formula, bindings, .. }) = task else {
            return Err(enqueue::NO_OUTPUT);
        };
        let Target { device, stream, .. } = self.target;
        let axes = |axes: Range<usize>| axes.len().max(1);
        let along = AxisReduction { outer: axes(self.kept()), reduced: axes(self.reduced()) };
        let address = output.address() + task.state_offset() as u64;
        let mut parameters: Parameters = input_parameters(task, inputs).into_iter().collect();
        self.add_axes(&mut parameters, self.kept(), bindings, Some(output));
        self.add_axes(&mut parameters, self.reduced(), bindings, None);
        let [results, n] = [self.kept(), self.reduced()].map(|axes| self.elements(axes));
        let blocks_at_once = along.blocks_per_multiprocessor(formula.program());
        let resident_blocks = device.multiprocessors.saturating_mul(blocks_at_once) as usize;
        let policy = &device.policy.axes;
        let partition = self.partition(policy, resident_blocks, scratch.bytes, formula, output);
        parameters.extend([address, results as u64, n as u64, scratch.address]);
        parameters.push(last_parameter(device, task, self.first));
        let (blocks, form) = (partition.blocks(results) as u32, Form::Along(along));
        let partition = Some(&partition);
        let kernels = &device.kernels;
        // SAFETY: the promise of `new`; the kernel has these parameters.
        unsafe { kernels.launch(task, form, [blocks, 0], stream, &mut parameters, partition)? };
        Ok(0)
    }

    /// Queues the kernel with that number of a call by key, which adds all elements to its table.
    fn add_by_key(&self, task: Task<'_>, number: usize) -> Result<(), Error> {
        let Task::Evaluate(Evaluation { bindings, .. }) = task else {
            return Err(enqueue::NO_OUTPUT);
        };
        let (Some(table), Some(output)) = (self.target.tables.get(number), self.outputs.first())
        else {
            return Err(enqueue::NO_OUTPUT);
        };
        let n = self.elements(self.reduced());
        if n == 0 {
            return Ok(());
        }
        let Target { device, stream, .. } = self.target;
        let limit = self.target.block_limits.of(task);
        let inputs: Addresses = self.inputs.iter().map(DeviceView::address).collect();
        let mut parameters: Parameters = input_parameters(task, &inputs).into_iter().collect();
        let mut form = Form::Contiguous;
        if !self.is_contiguous() {
            let axes = |axes: Range<usize>| axes.len().max(1);
            form = Form::Along(AxisReduction {
                outer: axes(self.kept()),
                reduced: axes(self.reduced()),
            });
            self.add_axes(&mut parameters, self.kept(), bindings, Some(output));
            self.add_axes(&mut parameters, self.reduced(), bindings, None);
            parameters.push(output.address());
        }
        table.launches(device, self.first, n, limit).try_for_each(|launch| {
            let mut parameters = parameters.clone();
            parameters.extend(launch.parameters);
            let grid = [launch.blocks, launch.shared_bytes];
            // SAFETY: the promise of `new`; the kernel has these parameters, and the table is the call's.
            unsafe { device.kernels.launch(task, form, grid, stream, &mut parameters, None) }
        })
    }

    /// True if there is one result, and its elements are adjacent in each array.
    fn is_contiguous(&self) -> bool {
        let follow = |array: &DeviceView| match *array.strides(self.reduced()) {
            [] => true,
            [stride] => stride == array.element_bytes() as isize,
            _ => false,
        };
        self.elements(self.kept()) == 1 && self.inputs.iter().all(follow)
    }

    /// Queues a copy, or the kernel of an elementwise task, which writes `outputs`. Contiguous arrays have a kernel of
    /// their own.
    fn map(&self, task: Task<'_>, outputs: &[usize]) -> Result<u32, Error> {
        if !self.has_elements {
            return Ok(0);
        }
        let views = self.inputs.iter().chain(outputs.iter().map(|output| &self.outputs[*output]));
        if self.is_chunk {
            let addresses = views.map(DeviceView::address).collect();
            return self.map_contiguous(task, &addresses, self.lengths[0]);
        }
        let mut placed = DeviceViews::new(&self.lengths);
        views.for_each(|view| placed.push(*view));
        let inputs = self.inputs.len();
        if self.kept < self.lengths.len() {
            placed.sort_by(inputs);
        }
        let Target { device, stream, .. } = self.target;
        let block_limit = self.target.block_limits.of(task);
        placed.merge();
        let (arrays, n) = (placed.addresses(), placed.elements());
        if placed.is_contiguous() {
            return self.map_contiguous(task, &arrays, n);
        }
        let Task::Evaluate(Evaluation { bindings, .. }) = task else {
            return Err(Error::Internal { text: "a copy with strides" });
        };
        let [pack, packs_per_thread] = packs(task)?;
        let variant = placed.variant(bindings, pack);
        let mut parameters: Parameters =
            input_parameters(task, &arrays[..inputs]).into_iter().collect();
        parameters.extend(arrays[inputs..].iter().copied());
        let number = placed.add_shape(&mut parameters, bindings, variant);
        let blocks = match variant.order {
            Order::Tiles { .. } => grid::at_most(number, block_limit),
            Order::Vectors { .. } if placed.are_broadcast(inputs) => {
                let packs = packs_per_thread.max(device.policy.vectors_of_writers);
                grid::of_packs(n, variant.items, packs, block_limit)
            }
            _ => grid::of_packs(n, variant.items, packs_per_thread, block_limit),
        };
        let (kernels, form) = (&device.kernels, Form::Strided(variant));
        // SAFETY: the promise of `new`; the kernel has these parameters.
        unsafe { kernels.launch(task, form, [blocks, 0], stream, &mut parameters, None)? };
        Ok(0)
    }

    /// Queues the same for `n` elements of contiguous arrays at these addresses, the inputs first.
    fn map_contiguous(&self, task: Task<'_>, arrays: &Addresses, n: usize) -> Result<u32, Error> {
        let Target { device, stream, flags, .. } = self.target;
        if let (Task::Copy, true, &[from, to]) = (task, self.target.copies_by_driver, &arrays[..]) {
            // SAFETY: the promise of `new`.
            return unsafe { enqueue::copy(device, stream, from, to, n) }.map(|()| 0);
        }
        let (inputs, contents) = (self.inputs.len(), Contents::Elements);
        let block_limit = self.target.block_limits.of(task);
        let launch = Launch { task, arrays, inputs, first: 0, n, contents, block_limit, flags };
        // SAFETY: the promise of `new`.
        unsafe { enqueue(device, stream, launch) }
    }
}
