//! Checks a caller's raw pointers and makes a [`Call`] of them. The rest of the library relies on a call's promise.

use super::array::{Array, Extent, Layout, MAX_ARRAYS, MemoryKind};
use super::formula::Formula;
use super::task::{Task, TaskKind};
use super::tiles::Strides;
use crate::error::Error;
use arrayvec::ArrayVec;
use gpuvec_axes::{Access, Axes, MAX_RANK, Space, Stride, View, c_order};
use std::ffi::c_void;

/// An array argument, as the caller passed it.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'a> {
    /// The argument's name in the header.
    name: &'static str,
    pointer: *mut c_void,
    layout: Layout,
    /// The strides along the axes of the call, in bytes; `None` for C order.
    strides: Option<&'a [Stride]>,
}

impl<'a> Argument<'a> {
    /// An argument of a call.
    ///
    /// # Safety
    /// The header's promise. If the address passes the checks, there is memory for all elements of the call. The memory
    /// is valid, and nothing else changes it, until the call returns or, on a stream, until the stream has done the
    /// work.
    pub(crate) const unsafe fn new(
        name: &'static str, pointer: *const c_void, layout: Layout, strides: Option<&'a [Stride]>,
    ) -> Self {
        Argument { name, pointer: pointer.cast_mut(), layout, strides }
    }

    /// The part of the array that begins `offset` bytes after the first element.
    ///
    /// # Safety
    /// As [`Argument::new`].
    pub(crate) unsafe fn part<'s>(&self, offset: isize, strides: &'s [Stride]) -> Argument<'s> {
        let pointer = self.pointer.wrapping_byte_offset(offset);
        Argument { pointer, strides: Some(strides), ..*self }
    }

    /// The same array in a copy of its memory. Address `from` of the array is `to` in the copy.
    ///
    /// # Safety
    /// As [`Argument::new`].
    pub(crate) unsafe fn copied(&self, from: usize, to: *mut c_void) -> Self {
        let offset = self.pointer.addr().wrapping_sub(from);
        Argument { pointer: to.wrapping_byte_add(offset), ..*self }
    }

    /// The strides along the axes of a call's shape.
    pub(crate) fn strides(&self, shape: &[i64]) -> ArrayVec<i64, MAX_RANK> {
        match self.strides {
            Some(strides) => strides.iter().copied().map(i64::from_ne_bytes).collect(),
            None => c_order(shape, self.layout.element_bytes, &mut [0; MAX_RANK])
                .iter()
                .copied()
                .collect(),
        }
    }
}

/// The arguments of a call.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    pub(crate) task: Task<'a>,
    /// The number of elements, if the arrays are known to be contiguous. Reductions then reduce all of them.
    pub(crate) contiguous: Option<usize>,
    /// The lengths of the axes of other arrays.
    pub(crate) shape: &'a [i64],
    /// A bit for each axis that reductions reduce.
    pub(crate) reduced_axes: u64,
    pub(crate) inputs: &'a [Argument<'a>],
    pub(crate) outputs: &'a [Argument<'a>],
}

/// The arrays of a call, passed by reference: to move them costs as much as a short call.
type Arrays = ArrayVec<Array, MAX_ARRAYS>;

/// Finds the memory kinds of arrays. (A closure would have two callers, for contiguous and for strided arrays, and so
/// would not be inlined into short calls.)
pub(crate) trait FindKinds {
    /// Stores the kind of memory that contains each array. Before, each array's kind is pageable.
    fn find(&self, arrays: &mut [Array]) -> Result<(), Error>;
}

impl<F: Fn(&Array) -> Result<MemoryKind, Error>> FindKinds for F {
    fn find(&self, arrays: &mut [Array]) -> Result<(), Error> {
        arrays.iter_mut().try_for_each(|array| {
            array.kind = self(array)?;
            Ok(())
        })
    }
}

/// Works on a call.
type Work<'f> = &'f mut dyn FnMut(&Call<'_>) -> Result<(), Error>;

impl<'a> Arguments<'a> {
    /// The arguments of a call on `n` elements of contiguous arrays.
    pub(crate) const fn contiguous(
        task: Task<'a>, n: usize, inputs: &'a [Argument<'a>], outputs: &'a [Argument<'a>],
    ) -> Self {
        let contiguous = Some(n);
        Arguments { task, contiguous, shape: &[], reduced_axes: 0, inputs, outputs }
    }

    /// Checks the arguments, and calls `work` with the call, which takes over their promise. Asks `kinds` for the
    /// memory kind of each array. Returns `None` if there is nothing to do.
    #[inline(always)]
    pub(crate) fn check<R>(
        &self, kinds: impl FindKinds, work: impl FnOnce(&Call<'_>) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        if let Some(n) = self.contiguous.or_else(|| self.contiguous_elements()) {
            return self.check_contiguous(n, &kinds, work);
        }
        let (mut work, mut result) = (Some(work), None);
        self.check_strided(&kinds, &mut |call| {
            result = work.take().map(|work| work(call)).transpose()?;
            Ok(())
        })?;
        Ok(result)
    }

    /// The number of elements, if the arguments alone tell that all arrays are contiguous: there is one axis at most,
    /// without strides, and reductions reduce it.
    #[inline(always)]
    fn contiguous_elements(&self) -> Option<usize> {
        let is_contiguous = self.shape.len() <= 1
            && self.task.kind() != TaskKind::Grouped
            && self.reduced_axes == self.task.kind().reduced_axes(self.shape.len())
            && [self.inputs, self.outputs]
                .iter()
                .all(|arrays| arrays.iter().all(|array| array.strides.is_none()));
        let n = self.shape.first().copied().unwrap_or(1);
        usize::try_from(n).ok().filter(|_| is_contiguous)
    }

    /// Checks contiguous arrays of `n` elements. Builds no axes and no views, which take a call of 10 elements 0.2 us
    /// of 1.1.
    #[inline(always)]
    fn check_contiguous<R>(
        &self, n: usize, kinds: &(impl FindKinds + ?Sized),
        work: impl FnOnce(&Call<'_>) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        let (task, mut arrays) = (self.task, Arrays::new());
        if n == 0 && !task.has_empty_result() {
            return Err(Error::Empty);
        }
        for input in if n > 0 { self.inputs } else { &[] } {
            arrays.push(array(task, input, n)?);
        }
        let count = arrays.len();
        for output in self.outputs {
            match output.layout.extent {
                Extent::Elements if n == 0 => continue,
                Extent::Elements => {}
                Extent::Results | Extent::Groups => {
                    if count == 0 {
                        // The same limit as for values in an array.
                        let of_array = Layout::contiguous(output.layout.element_bytes);
                        of_array.bytes(n).ok_or_else(|| too_long(task, n, output.layout))?;
                    }
                    if output.pointer.is_null() {
                        return Err(Error::NullResult { argument: output.name });
                    }
                }
            }
            arrays.push(array(task, output, n)?);
        }
        let (inputs, outputs) = arrays.split_at(count);
        if outputs.is_empty() || (matches!(task, Task::Copy) && inputs[0].is(&outputs[0])) {
            return Ok(None);
        }
        refuse_overlap(inputs, outputs)?;
        kinds.find(&mut arrays)?;
        work(&Call::of(task, n, &arrays, count)).map(Some)
    }

    /// Checks arrays of any strides. Not inlined, so that contiguous arrays need less stack.
    #[inline(never)]
    fn check_strided(&self, kinds: &dyn FindKinds, work: Work<'_>) -> Result<(), Error> {
        // In place: to return them would take as much stack once more.
        let mut views = ArrayVec::<View, MAX_ARRAYS>::new_const();
        views.extend(self.arrays().map(|_| View::default()));
        let Some(axes) = self.axes(&mut views)? else { return Ok(()) };
        if self.are_contiguous(&axes, &views) {
            let n = axes.kept().elements() * axes.reduced().elements();
            return self.check_merged(n, &views, kinds, work);
        }
        self.check_views(&axes, &views, kinds, work)
    }

    /// Makes the call if the axes of its arrays cannot be merged into one. Not inlined, so that the stack holds the
    /// arrays of one call.
    #[inline(never)]
    fn check_views(
        &self, axes: &Axes, views: &[View], kinds: &dyn FindKinds, work: Work<'_>,
    ) -> Result<(), Error> {
        let mut arrays = Arrays::new();
        for (&Argument { name, layout, .. }, view) in self.arrays().zip(views) {
            let (address, bytes) = (view.lowest, view.end - view.lowest);
            arrays.push(Array { name, address, layout, bytes, kind: MemoryKind::Pageable });
        }
        kinds.find(&mut arrays)?;
        let n = axes.kept().elements() * axes.reduced().elements().max(1);
        let strides = Some(Strides::new(axes, views));
        work(&Call { strides, ..Call::of(self.task, n, &arrays, self.inputs.len()) })
    }

    /// Checks arrays of `n` elements if their axes were merged into one. Not inlined, as `check_views`.
    #[inline(never)]
    fn check_merged(
        &self, n: usize, views: &[View], kinds: &dyn FindKinds, work: Work<'_>,
    ) -> Result<(), Error> {
        let first = |(array, view): (&Argument<'a>, &View)| {
            let pointer = std::ptr::with_exposed_provenance_mut(view.first);
            Argument { pointer, strides: None, ..*array }
        };
        let mut arrays = ArrayVec::<Argument<'_>, MAX_ARRAYS>::new_const();
        arrays.extend(self.arrays().zip(views).map(first));
        let (inputs, outputs) = arrays.split_at(self.inputs.len());
        Arguments { inputs, outputs, ..*self }.check_contiguous(n, kinds, work).map(drop)
    }

    /// The inputs, then the outputs.
    fn arrays(&self) -> impl Iterator<Item = &'a Argument<'a>> {
        self.inputs.iter().chain(self.outputs)
    }

    /// Finds the axes of the call, and the views of its arrays. `None` if there are no results. Even then a minimum of
    /// no elements is an error, as in NumPy.
    #[inline(never)]
    fn axes(&self, views: &mut [View]) -> Result<Option<Axes>, Error> {
        let argument = |array: &Argument<'a>| gpuvec_axes::Argument {
            address: array.pointer.expose_provenance(),
            element_bytes: array.layout.element_bytes,
            strides: array.strides,
        };
        let arrays: ArrayVec<_, MAX_ARRAYS> = self.arrays().map(argument).collect();
        let (inputs, outputs) = arrays.split_at(self.inputs.len());
        let layouts = self.outputs.iter().enumerate();
        let whole = layouts.filter(|(_, output)| output.layout.extent == Extent::Elements);
        let (shape, reduced_axes) = (self.shape, self.reduced_axes);
        let arguments = gpuvec_axes::Arguments {
            shape,
            inputs,
            outputs,
            whole_outputs: whole.fold(0, |bits, (output, _)| bits | 1 << output),
            reduced_axes,
            is_indexed: self.task.formula().is_some_and(Formula::is_indexed),
        };
        let axes = Axes::new(&arguments, views).map_err(Error::Axes)?;
        let mut reduced = (0..shape.len()).filter(|axis| reduced_axes >> axis & 1 == 1);
        if !self.task.has_empty_result() && reduced.any(|axis| shape[axis] == 0) {
            return Err(Error::Empty);
        }
        match self.task.kind() {
            TaskKind::Copy | TaskKind::Elementwise if axes.is_some() && reduced_axes != 0 => {
                let expected = "the expression is not a reduction: pass 0";
                let value = reduced_axes.cast_signed();
                Err(Error::Value { argument: "reduced_axes", value, expected })
            }
            TaskKind::Copy
            | TaskKind::Elementwise
            | TaskKind::Reduced
            | TaskKind::Grouped
            | TaskKind::Mixed => Ok(axes),
        }
    }

    /// True if the call's elements are adjacent in each array, and reductions have one result.
    fn are_contiguous(&self, axes: &Axes, views: &[View]) -> bool {
        let is_direct = |space: &Space, view: &View| space.access(view) == Access::Direct;
        let has_one_axis = match self.task.kind() {
            TaskKind::Copy | TaskKind::Elementwise => true,
            TaskKind::Reduced | TaskKind::Mixed => axes.kept().elements() == 1,
            TaskKind::Grouped => false,
        };
        let mut arrays = self.arrays().zip(views);
        has_one_axis
            && arrays.all(|(array, view)| {
                is_direct(axes.kept(), view)
                    && match array.layout.extent {
                        Extent::Elements => is_direct(axes.reduced(), view),
                        Extent::Results | Extent::Groups => true,
                    }
            })
    }
}

/// A checked call, which carries its caller's promise. Until the call returns or, on a stream, until the stream has
/// done the work, all elements of the inputs are readable, all elements of the outputs are writable, and no other
/// thread changes them. An output is exactly one of the inputs or overlaps none, and overlaps no other output. Code
/// with a [`Chunk`](super::chunk::Chunk) of a call may access the chunk's elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    task: Task<'a>,
    n: usize,
    /// The inputs, then the outputs.
    arrays: &'a [Array],
    inputs: &'a [Array],
    outputs: &'a [Array],
    /// The axes. `None` if the arrays are contiguous and are reduced as a whole or not at all. If there are axes,
    /// elements are found by the strides, never by chunks of an array.
    strides: Option<Strides<'a>>,
}

impl<'a> Call<'a> {
    /// A call on contiguous arrays. The first `inputs` arrays are inputs.
    fn of(task: Task<'a>, n: usize, arrays: &'a [Array], inputs: usize) -> Self {
        let (inputs, outputs) = arrays.split_at(inputs);
        Call { task, n, arrays, inputs, outputs, strides: None }
    }

    /// The same call, for work that [takes the states](super::ChunkWork::take_states) of the results. The views of the
    /// outputs only give their order. Cores do not take over such a call from GPUs: the taken states would count twice.
    pub(crate) fn for_states(&self) -> Self {
        let mut call = *self;
        call.strides.iter_mut().for_each(|strides| strides.wants_states = true);
        call
    }

    pub(crate) fn task(&self) -> Task<'a> {
        self.task
    }

    /// The number of elements in each input. It is 0 only for reductions; the call then has no inputs.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// The axes; `None` for contiguous arrays.
    pub(crate) fn strides(&self) -> Option<Strides<'a>> {
        self.strides
    }

    /// True for a reduction that reads no array: all its elements are equal.
    pub(crate) fn is_uniform(&self) -> bool {
        let reduces_all = self.task.kind() == TaskKind::Reduced && self.strides.is_none();
        reduces_all && self.n > 0 && self.inputs.is_empty()
    }

    pub(crate) fn inputs(&self) -> &[Array] {
        self.inputs
    }

    /// The outputs. Each has `n` elements, or the one value of a reduction.
    pub(crate) fn outputs(&self) -> &[Array] {
        self.outputs
    }

    /// The outputs of an extent, with their numbers among the outputs.
    pub(crate) fn outputs_of(&self, extent: Extent) -> impl Iterator<Item = (usize, &Array)> {
        self.outputs.iter().enumerate().filter(move |(_, output)| output.layout.extent == extent)
    }

    /// True if the result of a reduction replaces an element of an input.
    pub(super) fn reduces_into_input(&self) -> bool {
        let mut results = self.outputs_of(Extent::Results);
        results.any(|(_, result)| self.inputs.iter().any(|input| input.overlaps(result)))
    }

    /// The inputs, then the outputs.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.arrays.iter()
    }

    /// Array `number`. The inputs come before the outputs.
    pub(crate) fn array(&self, number: usize) -> &Array {
        &self.arrays[number]
    }

    pub(crate) fn any(&self, kind: MemoryKind) -> bool {
        self.arrays().any(|array| array.kind == kind)
    }

    /// The size of the largest element.
    pub(crate) fn element_bytes(&self) -> usize {
        self.arrays().map(Array::element_bytes).max().unwrap_or(1)
    }

    /// The bytes of the longest array.
    pub(crate) fn max_bytes(&self) -> usize {
        self.bytes().max().unwrap_or(0)
    }

    /// The bytes of each array's elements. Elements that a broadcast array repeats count once.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = usize> {
        let of = |(number, array): (usize, &Array)| match &self.strides {
            Some(strides) => strides.bytes(number),
            None => array.bytes,
        };
        self.arrays().enumerate().map(of)
    }

    /// The device with an output in its memory or, if there is none, with an input. `None` if the host reaches all
    /// arrays.
    pub(crate) fn device(&self) -> Option<usize> {
        self.arrays.iter().rev().find_map(Array::device)
    }

    /// True if an output is one of the inputs.
    pub(crate) fn is_in_place(&self) -> bool {
        let is_input =
            |output: &Array| self.inputs().iter().any(|input| input.address == output.address);
        self.outputs().iter().any(is_input)
    }
}

/// Fails if an output overlaps another output, or an input without being exactly that input. (The output of a reduction
/// may be an input's first element.)
#[inline(always)]
fn refuse_overlap(inputs: &[Array], outputs: &[Array]) -> Result<(), Error> {
    for (number, output) in outputs.iter().enumerate() {
        for input in inputs {
            if input.overlaps(output) && !may_share(input, output) {
                return Err(Error::Overlap { output: output.name, input: input.name });
            }
        }
        for other in &outputs[..number] {
            if other.overlaps(output) {
                return Err(Error::OutputsOverlap { output: output.name, other: other.name });
            }
        }
    }
    Ok(())
}

/// True if an output may share an input's memory: it is the same array or, for a reduction, its first element.
fn may_share(input: &Array, output: &Array) -> bool {
    match output.layout.extent {
        Extent::Elements => input.is(output),
        Extent::Results => {
            input.address == output.address && input.element_bytes() == output.element_bytes()
        }
        Extent::Groups => false,
    }
}

/// Checks an array of a call of `n` elements: its size, address and alignment. Its memory kind is not yet known.
#[inline(always)]
fn array(task: Task<'_>, argument: &Argument<'_>, n: usize) -> Result<Array, Error> {
    let Argument { name, pointer, layout, .. } = *argument;
    let (address, element_bytes) = (pointer.expose_provenance(), layout.element_bytes);
    let bytes = layout.bytes(n);
    let bytes = bytes.filter(|bytes| address.checked_add(*bytes).is_some());
    let bytes = bytes.ok_or_else(|| too_long(task, n, layout))?;
    if pointer.is_null() {
        return Err(Error::Null { argument: name, n });
    }
    // Element sizes are powers of two. A division would take longer than the other checks.
    if address & (element_bytes - 1) != 0 {
        return Err(Error::Misaligned { argument: name, address, alignment: element_bytes });
    }
    Ok(Array { name, address, layout, bytes, kind: MemoryKind::Pageable })
}

fn too_long(task: Task<'_>, n: usize, Layout { element_bytes, .. }: Layout) -> Error {
    match task {
        Task::Copy => Error::TooManyBytes { argument: "bytes", bytes: n },
        Task::Evaluate(_) => Error::TooLong { n, element_bytes },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::call::formula::{Binding, Evaluation, Formula};
    use gpuvec_ops::Op;
    use proptest::prelude::*;

    const ELEMENT: usize = size_of::<f32>();

    /// An array that no test accesses.
    pub(crate) fn unfollowed(
        name: &'static str, address: usize, layout: Layout,
    ) -> Argument<'static> {
        // SAFETY: the array is never accessed.
        unsafe { Argument::new(name, std::ptr::without_provenance(address), layout, None) }
    }

    /// Checks contiguous arrays of `n` elements.
    pub(crate) fn check<R>(
        task: Task<'_>, n: usize, inputs: &[Argument<'_>], outputs: &[Argument<'_>],
        kind_of: impl Fn(&Array) -> Result<MemoryKind, Error>,
        then: impl FnOnce(&Call<'_>) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        Arguments::contiguous(task, n, inputs, outputs).check(kind_of, then)
    }

    /// A call on arrays at these addresses, which no test accesses.
    fn call(op: Op, inputs: &[usize], out: usize, n: usize) -> Result<Option<()>, Error> {
        with_kinds(op, inputs, out, n, |_: &_| Ok(MemoryKind::Pageable), |_| ())
    }

    fn with_kinds<R>(
        op: Op, inputs: &[usize], out: usize, n: usize,
        kind_of: impl Fn(&Array) -> Result<MemoryKind, Error>, then: impl FnOnce(&Call<'_>) -> R,
    ) -> Result<Option<R>, Error> {
        let layout = Layout::contiguous(op.element_bytes());
        let inputs = ["a", "b"].into_iter().zip(inputs);
        let inputs: Vec<_> =
            inputs.map(|(name, address)| unfollowed(name, *address, layout)).collect();
        let formula = Formula::of(op);
        let outputs = [unfollowed("out", out, formula.output)];
        let bindings = &[Binding::Array; 2][..op.inputs()];
        let task = Task::Evaluate(Evaluation { formula, bindings, groups: 0 });
        check(task, n, &inputs, &outputs, kind_of, |call| Ok(then(call)))
    }

    /// A call on arrays of these kinds, which no test accesses.
    pub(crate) fn with_call<R>(
        op: Op, n: usize, kinds: [MemoryKind; 3], then: impl FnOnce(&Call<'_>) -> R,
    ) -> R {
        const SPACE: usize = 1 << 44;
        let [a, b, out] = [1, 2, 3].map(|place| place * SPACE);
        let kind_of = |array: &Array| Ok(kinds[array.address / SPACE - 1]);
        with_kinds(op, &[a, b][..op.inputs()], out, n, kind_of, then).unwrap().unwrap()
    }

    fn add(a: usize, b: usize, out: usize, n: usize) -> Result<Option<()>, Error> {
        call(Op::AddF32, &[a, b], out, n)
    }

    proptest! {
        #[test]
        fn partial_overlap_is_refused_and_nothing_else(
            a in 1usize..200, b in 1usize..200, out in 1usize..200, n in 1usize..60,
        ) {
            let overlaps = |input: usize| {
                let cells = |start: usize| start..start + n;
                input != out && cells(input).any(|cell| cells(out).contains(&cell))
            };
            let result = add(a * ELEMENT, b * ELEMENT, out * ELEMENT, n);
            if overlaps(a) || overlaps(b) {
                let refused = matches!(result, Err(Error::Overlap { .. }));
                prop_assert!(refused);
            } else {
                prop_assert!(result.is_ok());
            }
        }

        #[test]
        fn misaligned_pointers_are_refused(offset in 1usize..4, which in 0usize..3) {
            let mut addresses = [0x1000, 0x2000, 0x3000];
            addresses[which] += offset;
            let result = add(addresses[0], addresses[1], addresses[2], 8);
            let refused = matches!(result, Err(Error::Misaligned { alignment: ELEMENT, .. }));
            prop_assert!(refused);
        }

        #[test]
        fn sizes_past_the_address_space_are_refused(n in (isize::MAX as usize / ELEMENT + 1)..) {
            let result = add(0x1000, 0x2000, 0x3000, n);
            let refused = matches!(result, Err(Error::TooLong { .. }));
            prop_assert!(refused);
        }
    }

    #[test]
    fn an_array_may_not_wrap_around_the_address_space() {
        let top = usize::MAX - 4096 + 1;
        assert!(matches!(add(top, 0x1000, 0x4000, 1025), Err(Error::TooLong { .. })));
    }

    #[test]
    fn no_elements_need_no_arrays_but_a_place_for_their_result() {
        assert!(matches!(add(0, 1, 2, 0), Ok(None)));
        let dot = |out| call(Op::DotF32, &[0, 1], out, 0);
        assert!(matches!(dot(0), Err(Error::NullResult { argument: "out" })));
        assert!(matches!(dot(0x1000), Ok(Some(_))));
        assert!(matches!(dot(0x1001), Err(Error::Misaligned { .. })));
        for out in [0, 0x1000] {
            assert!(matches!(call(Op::MinF64, &[0], out, 0), Err(Error::Empty)));
        }
    }

    #[test]
    fn a_result_inside_an_input_is_refused_unless_it_is_its_first_element() {
        let dot = |out| call(Op::DotF32, &[0x1000, 0x2000], out, 8);
        assert!(dot(0x1000).is_ok());
        assert!(matches!(dot(0x1004), Err(Error::Overlap { .. })));
        assert!(matches!(dot(0x201C), Err(Error::Overlap { .. })));
        assert!(dot(0x2020).is_ok());
        assert!(matches!(dot(0), Err(Error::NullResult { .. })));
    }
}
