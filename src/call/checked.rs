//! Checks a caller's raw pointers and makes a [`Call`] of them. The rest of the library relies on the promise of calls.

use super::array::{Array, Extent, Layout, MAX_ARRAYS, MemoryKind};
use super::task::{Task, TaskKind};
use super::tiles::Strides;
use crate::error::Error;
use arrayvec::ArrayVec;
use std::ffi::c_void;

/// An input array, as the caller passed it.
pub(crate) struct Input {
    /// The argument's name in the header.
    pub(crate) name: &'static str,
    pub(crate) pointer: *const c_void,
    pub(crate) layout: Layout,
}

/// The memory for an output, as the caller passed it.
pub(crate) struct Output {
    /// The argument's name in the header.
    pub(crate) name: &'static str,
    pub(crate) pointer: *mut c_void,
    pub(crate) layout: Layout,
}

/// The arguments of a call. Whoever made them has promised what the header demands.
pub(crate) struct Arguments<'a> {
    task: Task<'a>,
    n: usize,
    inputs: &'a [Input],
    outputs: &'a [Output],
}

impl<'a> Arguments<'a> {
    /// The arguments of a task on `n` elements.
    ///
    /// # Safety
    /// The header's promise. Each pointer that passes the checks points to memory for `n` elements of its layout. The
    /// memory is valid, and nothing else changes it, until the call returns or, on a stream, until the stream has done
    /// the work.
    pub(crate) unsafe fn new(
        task: Task<'a>, inputs: &'a [Input], outputs: &'a [Output], n: usize,
    ) -> Self {
        Arguments { task, n, inputs, outputs }
    }

    pub(crate) fn task(&self) -> Task<'a> {
        self.task
    }

    pub(crate) fn n(&self) -> usize {
        self.n
    }
}

/// The arrays of a call, passed by reference: to move them costs as much as a short call.
pub(crate) type Arrays = ArrayVec<Array, MAX_ARRAYS>;

/// A checked call, which carries its caller's promise. All elements of the inputs are readable and of the outputs
/// writable until the call returns or, on a stream, until the stream has done the work. No other thread changes them
/// meanwhile. An output is exactly one of the inputs or overlaps none, and overlaps no other output. Code with a
/// [`Chunk`](super::chunk::Chunk) of a call may access the chunk's elements.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    task: Task<'a>,
    n: usize,
    /// The inputs, then the outputs.
    arrays: &'a [Array],
    inputs: &'a [Array],
    outputs: &'a [Array],
    /// The axes, unless the arrays are contiguous and are reduced as a whole or not at all.
    strides: Option<Strides<'a>>,
}

impl<'a> Call<'a> {
    /// Checks arguments, and takes over their promise. Asks `kind_of` for the memory kind of each array. `arrays` is
    /// empty at first. Returns `None` if there is nothing to do.
    #[inline(always)]
    pub(crate) fn new(
        arrays: &'a mut Arrays, arguments: &Arguments<'a>,
        mut kind_of: impl FnMut(&Array) -> Result<MemoryKind, Error>,
    ) -> Result<Option<Self>, Error> {
        let Arguments { task, n, inputs, outputs } = *arguments;
        if n == 0 && !task.has_empty_result() {
            return Err(Error::Empty);
        }
        let mut written = outputs.iter().filter(|output| output.layout.extent.elements(n) > 0);
        if written.clone().next().is_none() {
            return Ok(None);
        }
        for input in inputs.iter().filter(|_| n > 0) {
            arrays.push(array(task, input.name, input.pointer, n, input.layout)?);
        }
        let count = arrays.len();
        written.try_for_each(|output| {
            match output.layout.extent {
                Extent::Elements => {}
                Extent::Results => {
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
            arrays.push(array(task, output.name, output.pointer, n, output.layout)?);
            Ok(())
        })?;
        let checked = Call::of(task, n, arrays, count);
        if matches!(task, Task::Copy) && checked.is_in_place() {
            return Ok(None);
        }
        checked.refuse_overlap()?;
        for array in arrays.iter_mut() {
            // Pageable is the default: no store for it.
            match kind_of(array)? {
                MemoryKind::Pageable => {}
                other => array.kind = other,
            }
        }
        Ok(Some(Call::of(task, n, arrays, count)))
    }

    /// A call on arrays whose shape and strides were checked. Their `n` elements are found by the strides, never by
    /// chunks of an array.
    ///
    /// # Safety
    /// The promise of a call holds for the elements that the strides reach.
    pub(crate) unsafe fn strided(
        task: Task<'a>, n: usize, arrays: &'a [Array], inputs: usize, strides: Strides<'a>,
    ) -> Self {
        Call { strides: Some(strides), ..Call::of(task, n, arrays, inputs) }
    }

    /// A call on contiguous arrays, of which the first `inputs` are inputs.
    fn of(task: Task<'a>, n: usize, arrays: &'a [Array], inputs: usize) -> Self {
        let (inputs, outputs) = arrays.split_at(inputs);
        Call { task, n, arrays, inputs, outputs, strides: None }
    }

    /// Fails if an output overlaps an input without being exactly that input, or another output. (The output of
    /// a reduction may be an input's first element.)
    fn refuse_overlap(&self) -> Result<(), Error> {
        for (number, output) in self.outputs.iter().enumerate() {
            for input in self.inputs {
                if input.overlaps(output) && !may_share(input, output) {
                    return Err(Error::Overlap { output: output.name, input: input.name });
                }
            }
            for other in &self.outputs[..number] {
                if other.overlaps(output) {
                    return Err(Error::OutputsOverlap { output: output.name, other: other.name });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn task(&self) -> Task<'a> {
        self.task
    }

    /// The number of elements in each input. It is 0 only for reductions; the call then has no inputs.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// The axes; `None` for contiguous arrays, which have one.
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

    /// The device whose memory contains an output or, if there is none, an input. `None` if the host reaches all
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

/// True if an output may share an input's memory: it is the same array or, for a reduction, its first element.
fn may_share(input: &Array, output: &Array) -> bool {
    match output.layout.extent {
        Extent::Elements => input.is(output),
        Extent::Results => {
            input.address == output.address && input.element_bytes() == output.element_bytes()
        }
    }
}

/// Checks an array of a call of `n` elements: its size, address and alignment. Its memory kind is not yet known.
#[inline(always)]
fn array(
    task: Task<'_>, name: &'static str, pointer: *const c_void, n: usize, layout: Layout,
) -> Result<Array, Error> {
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
        _ => Error::TooLong { n, element_bytes },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::call::formula::{Binding, Evaluation, Formula};
    use gpuvec_ops::Op;
    use proptest::prelude::*;

    const ELEMENT: usize = size_of::<f32>();

    /// A call on arrays at these addresses, which no test follows.
    fn call(op: Op, inputs: &[usize], out: usize, n: usize) -> Result<Option<()>, Error> {
        with_kinds(op, inputs, out, n, |_| Ok(MemoryKind::Pageable), |_| ())
    }

    fn with_kinds<R>(
        op: Op, inputs: &[usize], out: usize, n: usize,
        kind_of: impl Fn(&Array) -> Result<MemoryKind, Error>, then: impl FnOnce(&Call<'_>) -> R,
    ) -> Result<Option<R>, Error> {
        let pointer = std::ptr::without_provenance_mut::<c_void>;
        let inputs: Vec<Input> = ["a", "b"]
            .into_iter()
            .zip(inputs)
            .map(|(name, address)| Input {
                name,
                pointer: pointer(*address),
                layout: Layout::contiguous(op.element_bytes()),
            })
            .collect();
        let formula = Formula::of(op);
        let outputs = [Output { name: "out", pointer: pointer(out), layout: formula.output }];
        let bindings = &[Binding::Array; 2][..op.inputs()];
        let task = Task::Evaluate(Evaluation { formula, bindings });
        // SAFETY: the arrays are never accessed.
        let arguments = unsafe { Arguments::new(task, &inputs, &outputs, n) };
        Ok(Call::new(&mut Arrays::new(), &arguments, kind_of)?.map(|call| then(&call)))
    }

    /// A call on arrays of these kinds, which no test follows.
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
