//! Arrays of any strides as a device sees them, and the variant of the kernel for them.

use super::enqueue::Addresses;
use super::part::Part;
use super::placed_part::Parameters;
use crate::call::{Binding, MAX_ARRAYS};
use crate::cpu::Grid;
use crate::policy::gpu;
use arrayvec::ArrayVec;
use gpuvec_axes::{Divisor, MAX_AXES};
use gpuvec_ptx::{MAX_ITEMS_APART, Order, Variant, tile_side, vector_bytes};
use std::ops::Range;

/// The arrays of a kernel, with common axes.
#[derive(Debug)]
pub(super) struct DeviceViews {
    lengths: ArrayVec<usize, MAX_AXES>,
    /// The inputs, then the outputs.
    arrays: ArrayVec<DeviceView, MAX_ARRAYS>,
}

/// An array of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceView {
    /// The address of the first element.
    address: u64,
    element_bytes: usize,
    /// The strides in bytes, from the outermost axis on.
    strides: [isize; MAX_AXES],
}

impl DeviceView {
    /// Array `number` in place, from a part's first element on. `first` is the address of the array's first element.
    pub(super) fn in_place(
        first: u64, part: &Part<'_>, number: usize, element_bytes: usize,
    ) -> Self {
        let address = first.wrapping_add_signed(part.offset(number) as i64);
        DeviceView { address, element_bytes, strides: part.strides(number) }
    }

    /// A staging buffer.
    pub(super) fn dense(address: u64, packed: &StagingLayout, element_bytes: usize) -> Self {
        DeviceView { address, element_bytes, strides: packed.steps }
    }

    /// Adjacent states of `bytes` bytes, of results along axes of these lengths.
    pub(super) fn states(address: u64, lengths: &[usize], bytes: usize) -> Self {
        let (mut strides, mut step) = ([0; MAX_AXES], bytes as isize);
        for (stride, length) in strides.iter_mut().zip(lengths).rev() {
            *stride = step;
            step *= *length as isize;
        }
        DeviceView { address, element_bytes: bytes, strides }
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// The strides along axes of the tile.
    pub(super) fn strides(&self, axes: Range<usize>) -> &[isize] {
        &self.strides[axes]
    }
}

/// The layout in which an array's elements of a part are adjacent in a staging buffer. Repeated elements are there
/// once.
pub(super) struct StagingLayout {
    /// The lengths of the axes along which the elements differ, in the order of the buffer, and the array's strides.
    lengths: ArrayVec<usize, MAX_AXES>,
    strides: ArrayVec<isize, MAX_AXES>,
    element_bytes: usize,
    /// The strides in the buffer along the part's axes.
    steps: [isize; MAX_AXES],
}

impl StagingLayout {
    /// Lays out the elements of array `number` in the order of the part's axes or, if `in_memory_order`, as they are in
    /// memory: the kernels of reductions accept any order.
    pub(super) fn of(
        part: &Part<'_>, number: usize, element_bytes: usize, in_memory_order: bool,
    ) -> Self {
        let (lengths, strides) = (part.lengths(), part.strides(number));
        if matches!(part, Part::Chunk { .. }) && strides[0] != 0 {
            let (strides, steps) = (strides[..1].iter().copied().collect(), strides);
            return StagingLayout { lengths, strides, element_bytes, steps };
        }
        let mut axes: ArrayVec<usize, MAX_AXES> = ArrayVec::new();
        for axis in (0..lengths.len()).filter(|axis| strides[*axis] != 0) {
            let is_inside = |other: &usize| {
                in_memory_order && strides[*other].unsigned_abs() < strides[axis].unsigned_abs()
            };
            let place = axes.iter().position(is_inside).unwrap_or(axes.len());
            axes.insert(place, axis);
        }
        let (mut steps, mut step) = ([0; MAX_AXES], element_bytes);
        for axis in axes.iter().rev() {
            steps[*axis] = step as isize;
            step *= lengths[*axis];
        }
        StagingLayout {
            lengths: axes.iter().map(|axis| lengths[*axis]).collect(),
            strides: axes.iter().map(|axis| strides[*axis]).collect(),
            element_bytes,
            steps,
        }
    }

    /// The elements in the array, not in the buffer.
    pub(super) fn grid(&self) -> Grid<'_> {
        Grid::new(&self.lengths, &self.strides, self.element_bytes)
    }

    /// The bytes in the buffer.
    pub(super) fn bytes(&self) -> usize {
        self.element_bytes * self.lengths.iter().product::<usize>()
    }
}

impl DeviceViews {
    /// No arrays yet, with axes of these lengths.
    pub(super) fn new(lengths: &[usize]) -> Self {
        DeviceViews { lengths: lengths.iter().copied().collect(), arrays: ArrayVec::new() }
    }

    pub(super) fn push(&mut self, array: DeviceView) {
        self.arrays.push(array);
    }

    pub(super) fn addresses(&self) -> Addresses {
        self.arrays.iter().map(|array| array.address).collect()
    }

    pub(super) fn elements(&self) -> usize {
        self.lengths.iter().product()
    }

    /// Sorts the axes by the strides of an array without repeated elements, the largest stride first.
    pub(super) fn sort_by(&mut self, array: usize) {
        for axis in 1..self.lengths.len() {
            let step = |axis: usize| self.arrays[array].strides[axis].unsigned_abs();
            let place = (0..axis).find(|other| step(*other) < step(axis)).unwrap_or(axis);
            self.lengths[place..=axis].rotate_right(1);
            let strides = self.arrays.iter_mut().map(|array| &mut array.strides);
            strides.for_each(|strides| strides[place..=axis].rotate_right(1));
        }
    }

    /// Drops axes of length 1, and merges adjacent axes that every array steps through like one. Leaves at least one
    /// axis.
    pub(super) fn merge(&mut self) {
        let mut count = 0;
        for axis in 0..self.lengths.len() {
            let length = self.lengths[axis];
            if length == 1 {
                continue;
            }
            let step = length as isize;
            let continues =
                |array: &DeviceView| array.strides[count - 1] == array.strides[axis] * step;
            if count > 0 && self.arrays.iter().all(continues) {
                self.lengths[count - 1] *= length;
            } else {
                self.lengths[count] = length;
                count += 1;
            }
            for array in &mut self.arrays {
                array.strides[count - 1] = array.strides[axis];
            }
        }
        self.lengths.truncate(count);
        if count == 0 {
            self.lengths.push(1);
            self.arrays
                .iter_mut()
                .for_each(|array| array.strides[0] = array.element_bytes as isize);
        }
    }

    /// True if the elements of every array are adjacent in memory.
    pub(super) fn is_contiguous(&self) -> bool {
        let is = |array: &DeviceView| array.strides[0] == array.element_bytes as isize;
        self.lengths.len() == 1 && self.arrays.iter().all(is)
    }

    /// Returns the variant of a kernel that reads `pack` elements at once from contiguous arrays. The axes are merged;
    /// their order may change.
    pub(super) fn variant(&mut self, bindings: &[Binding], pack: usize) -> Variant {
        let axes = if self.lengths.len() <= gpu::FEW_AXES { self.lengths.len() } else { MAX_AXES };
        let mut fitting = (1..=pack.ilog2()).rev().map(|log2| 1 << log2);
        if let Some(lanes) = fitting.find(|lanes| self.has_packs(*lanes)) {
            let inner = self.inner();
            let broadcast = self.inputs_where(bindings, |array| array.strides[inner] == 0);
            return Variant { axes, items: lanes, order: Order::Vectors { broadcast } };
        }
        let lanes = pack.min(MAX_ITEMS_APART);
        if let Some(order) = self.tiles(bindings) {
            return Variant { axes, items: lanes, order };
        }
        let mut fitting = (1..=lanes.ilog2()).rev().map(|log2| 1 << log2);
        match fitting.find_map(|lanes| self.flat(bindings, lanes).map(|order| (lanes, order))) {
            Some((lanes, order)) => Variant { axes, items: lanes, order },
            None => Variant { axes, items: lanes, order: Order::Apart },
        }
    }

    /// The variant for elements that are adjacent in C order in every output and at least one input. The elements of
    /// the other inputs must be adjacent, or repeated, along the innermost axis.
    fn flat(&self, bindings: &[Binding], lanes: usize) -> Option<Order> {
        let inner = self.inner();
        let is_near =
            |array: &DeviceView| [0, array.element_bytes as isize].contains(&array.strides[inner]);
        let is_flat = |array: &DeviceView| {
            let mut wanted = array.element_bytes as isize;
            let follows = |(stride, length): (&isize, &usize)| {
                let is = *stride == wanted;
                wanted *= *length as isize;
                is
            };
            let alignment = vector_bytes(array.element_bytes, lanes) as u64;
            array.address.is_multiple_of(alignment)
                && array.strides[..=inner].iter().zip(&self.lengths).rev().all(follows)
        };
        let inputs = bindings.iter().filter(|of| matches!(of, Binding::Array)).count();
        let (inputs, outputs) = self.arrays.split_at(inputs);
        let is_fitting = inputs.iter().all(is_near) && outputs.iter().all(is_flat);
        let flat = self.inputs_where(bindings, is_flat);
        (is_fitting && flat != 0).then_some(Order::Flat { flat })
    }

    /// The variant with tiles, if inputs have elements that are adjacent along another axis than the innermost, and
    /// both axes are long. Moves that axis next to the innermost.
    fn tiles(&mut self, bindings: &[Binding]) -> Option<Order> {
        let inner = self.inner();
        let follows = |array: &DeviceView, axis: usize| {
            array.strides[axis].unsigned_abs() == array.element_bytes
                && array.strides[inner].unsigned_abs() > array.element_bytes
        };
        let inputs = bindings.iter().filter(|of| matches!(of, Binding::Array)).count();
        let is_long = |axis: &usize| self.lengths[*axis] >= gpu::LEAST_TILED;
        let axis = (0..inner).filter(is_long).find(|axis| {
            is_long(&inner) && self.arrays[..inputs].iter().any(|array| follows(array, *axis))
        })?;
        let mut bytes = 0;
        let across = self.inputs_where(bindings, |array| {
            let wanted = bytes + array.element_bytes;
            let is_copied = follows(array, axis) && tile_side(wanted).is_some();
            bytes = if is_copied { wanted } else { bytes };
            is_copied
        });
        self.lengths[axis..inner].rotate_left(1);
        self.arrays.iter_mut().for_each(|array| array.strides[axis..inner].rotate_left(1));
        tile_side(bytes).map(|side| Order::Tiles { across, side })
    }

    /// True if every input repeats elements along some axis. The inputs are the first `inputs` arrays.
    pub(super) fn are_broadcast(&self, inputs: usize) -> bool {
        let mut strides = self.arrays[..inputs].iter().map(|array| &array.strides[..=self.inner()]);
        strides.all(|strides| strides.contains(&0))
    }

    fn inner(&self) -> usize {
        self.lengths.len() - 1
    }

    /// True if every array either repeats elements along the innermost axis or can be accessed along it in vectors of
    /// `lanes` elements.
    fn has_packs(&self, lanes: usize) -> bool {
        let inner = self.inner();
        let is_packed = |array: &DeviceView| {
            let bytes = vector_bytes(array.element_bytes, lanes) as isize;
            array.strides[inner] == array.element_bytes as isize
                && array.address.cast_signed() % bytes as i64 == 0
                && array.strides[..inner].iter().all(|stride| stride % bytes == 0)
        };
        self.lengths[inner].is_multiple_of(lanes)
            && self.arrays.iter().all(|array| array.strides[inner] == 0 || is_packed(array))
    }

    /// A bit for each declared input, set if the predicate holds for its array.
    fn inputs_where(
        &self, bindings: &[Binding], mut holds: impl FnMut(&DeviceView) -> bool,
    ) -> u64 {
        let mut arrays = self.arrays.iter();
        let of_arrays = bindings.iter().enumerate().filter(|(_, of)| matches!(of, Binding::Array));
        of_arrays.fold(0, |bits, (number, _)| {
            bits | u64::from(arrays.next().is_some_and(&mut holds)) << number
        })
    }

    /// Adds a variant's parameters behind the addresses: lengths, strides, the number of units (elements, vectors or
    /// tiles), and 0 in place of flags. Returns the number of units.
    pub(super) fn add_shape(
        &self, parameters: &mut Parameters, bindings: &[Binding], variant: Variant,
    ) -> usize {
        let (missing, inner) = (variant.axes - self.lengths.len(), self.inner());
        let units = |axis: usize| match variant.order {
            Order::Vectors { .. } if axis == inner => self.lengths[axis] / variant.items,
            Order::Tiles { side, .. } if axis + 1 >= inner => self.lengths[axis].div_ceil(side),
            _ => self.lengths[axis],
        };
        // Outermost axes of length 1 fill up the variant's number of axes.
        let ones = std::iter::repeat_n(1, missing);
        for length in ones.chain((0..=inner).map(units)).skip(1) {
            // A launch has fewer elements than a divisor's limit.
            let Divisor { multiplier, shift } = Divisor::new(length as u32);
            parameters.extend([length as u64, multiplier.into(), shift.into()]);
        }
        let mut arrays = self.arrays.iter();
        let mut add = |array: Option<&DeviceView>| {
            let strides = array.map_or(&[0; MAX_AXES], |array| &array.strides);
            parameters.extend(std::iter::repeat_n(0, missing));
            parameters.extend(strides[..=inner].iter().map(|stride| *stride as u64));
        };
        for binding in bindings {
            add(if matches!(binding, Binding::Array) { arrays.next() } else { None });
        }
        arrays.for_each(|array| add(Some(array)));
        if let Order::Tiles { .. } = variant.order {
            parameters.extend(self.lengths[inner - 1..].iter().map(|length| *length as u64));
        }
        let number: usize = (0..=inner).map(units).product();
        parameters.extend([number as u64, 0]);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: u64 = 1 << 40;

    /// Arrays of f32 with axes of these lengths, by addresses and strides in elements, after merging.
    fn placed(lengths: &[usize], arrays: &[(u64, &[isize])]) -> DeviceViews {
        let mut placed = DeviceViews::new(lengths);
        for (past, steps) in arrays {
            let mut strides = [0; MAX_AXES];
            strides.iter_mut().zip(*steps).for_each(|(stride, step)| *stride = 4 * step);
            placed.push(DeviceView { address: ADDRESS + past, element_bytes: 4, strides });
        }
        placed.merge();
        placed
    }

    /// The variant for two inputs and an output of a kernel that takes four elements at once.
    fn variant(lengths: &[usize], arrays: &[(u64, &[isize])]) -> (Variant, DeviceViews) {
        let mut placed = placed(lengths, arrays);
        let bindings = [Binding::Scalar(0), Binding::Array, Binding::Unused, Binding::Array];
        (placed.variant(&bindings, 4), placed)
    }

    /// The parameters for a length.
    fn divisor(length: u32) -> [u64; 3] {
        let Divisor { multiplier, shift } = Divisor::new(length);
        [length.into(), multiplier.into(), shift.into()]
    }

    #[test]
    fn axes_that_are_walked_like_one_are_merged() {
        let all = placed(&[3, 1, 5, 7], &[(0, &[35, 99, 7, 1]), (0, &[35, 0, 7, 1])]);
        assert!(all.is_contiguous());
        assert_eq!(all.elements(), 105);
        let row = placed(&[3, 5, 7], &[(0, &[35, 7, 1]), (0, &[0, 0, 1])]);
        assert_eq!(row.lengths[..], [15, 7]);
        assert_eq!(
            (row.arrays[0].strides[..2].to_vec(), row.arrays[1].strides[0]),
            (vec![28, 4], 0)
        );
        let one = placed(&[1, 1], &[(0, &[5, 9])]);
        assert!(one.is_contiguous());
    }

    #[test]
    fn packs_need_aligned_rows() {
        let whole: &[isize] = &[16, 1];
        for (row, past, lanes, order) in [
            (&[0, 1], 0, 4, Order::Vectors { broadcast: 0 }),
            (&[1, 0], 0, 4, Order::Vectors { broadcast: 0b1000 }),
            (&[1, 0], 4, 4, Order::Vectors { broadcast: 0b1000 }),
            (&[0, 1], 8, 2, Order::Vectors { broadcast: 0 }),
            (&[0, 1], 4, 4, Order::Flat { flat: 0b0010 }),
            (&[18, 1], 0, 2, Order::Vectors { broadcast: 0 }),
            (&[17, 1], 0, 4, Order::Flat { flat: 0b0010 }),
            (&[33, 2], 0, 4, Order::Apart),
            (&[-16, 1], 0, 4, Order::Vectors { broadcast: 0 }),
        ] as [(&[isize; 2], _, _, _); 9]
        {
            let (found, _) = variant(&[8, 16], &[(0, whole), (past, row), (0, whole)]);
            assert_eq!(
                found,
                Variant { axes: 2, items: lanes, order },
                "{row:?}, {past} bytes past"
            );
        }
        let (found, _) = variant(&[8, 15], &[(0, &[15, 1]), (0, &[0, 2]), (0, &[15, 1])]);
        assert_eq!(found.order, Order::Apart);
    }

    #[test]
    fn rows_of_odd_lengths_are_packs_where_the_output_is_whole() {
        let whole: &[isize] = &[15, 1];
        for (input, past, out, lanes, order) in [
            (&[0, 1], 0, whole, 4, Order::Flat { flat: 0b0010 }),
            (&[1, 0], 4, whole, 4, Order::Flat { flat: 0b0010 }),
            (&[17, 1], 0, whole, 4, Order::Flat { flat: 0b0010 }),
            (&[0, -1], 0, whole, 4, Order::Apart),
            (&[0, 1], 0, &[16, 1], 4, Order::Apart),
        ] as [(&[isize; 2], _, &[isize], _, _); 5]
        {
            let (found, _) = variant(&[8, 15], &[(0, whole), (past, input), (0, out)]);
            assert_eq!(
                found,
                Variant { axes: 2, items: lanes, order },
                "{input:?}, {past} bytes past"
            );
        }
    }

    #[test]
    fn arrays_in_another_order_are_copied_in_tiles() {
        let (found, placed) = variant(
            &[64, 5, 100],
            &[(0, &[1, 6464, 64]), (0, &[500, 100, 1]), (0, &[500, 100, 1])],
        );
        let order = Order::Tiles { across: 0b0010, side: 64 };
        assert_eq!(found, Variant { axes: 3, items: 4, order });
        assert_eq!(placed.lengths[..], [5, 64, 100]);
        assert_eq!(placed.arrays[0].strides[..3], [25_856, 4, 256]);
        // Tiles of short axes would be mostly empty.
        let (found, _) = variant(&[100, 3], &[(0, &[1, 100]), (0, &[3, 1]), (0, &[3, 1])]);
        assert_eq!(found.order, Order::Apart);
    }

    #[test]
    fn parameters_are_those_of_the_variant() {
        let bindings = [Binding::Scalar(0), Binding::Array, Binding::Unused, Binding::Array];
        let (found, placed) = variant(&[8, 16], &[(0, &[16, 1]), (0, &[0, 1]), (0, &[20, 1])]);
        let mut parameters = ArrayVec::new();
        assert_eq!(placed.add_shape(&mut parameters, &bindings, found), 32);
        let strides = [0, 0, 64, 4, 0, 0, 0, 4, 80, 4];
        assert_eq!(parameters[..], [&divisor(4)[..], &strides, &[32, 0]].concat());

        let (found, placed) = variant(&[70, 100], &[(0, &[1, 70]), (0, &[100, 1]), (0, &[100, 1])]);
        parameters.clear();
        assert_eq!(placed.add_shape(&mut parameters, &bindings, found), 4);
        let strides = [0, 0, 4, 280, 0, 0, 400, 4, 400, 4];
        assert_eq!(parameters[..], [&divisor(2)[..], &strides, &[70, 100, 4, 0]].concat());
    }

    #[test]
    fn more_axes_than_a_few_are_as_many_as_there_can_be() {
        let lengths = [2, 3, 2, 3, 5];
        let (gaps, whole) = ([720, 200, 80, 20, 3], [90, 30, 15, 5, 1]);
        let (found, placed) = variant(&lengths, &[(0, &gaps), (0, &whole), (0, &whole)]);
        assert_eq!(found, Variant { axes: 8, items: 4, order: Order::Apart });
        let mut parameters = ArrayVec::new();
        let bindings = [Binding::Array, Binding::Array];
        assert_eq!(placed.add_shape(&mut parameters, &bindings, found), 180);
        assert_eq!(parameters.len(), 7 * 3 + 3 * 8 + 2);
        let axes_of_length_1 = [divisor(1), divisor(1)].concat();
        assert_eq!(parameters[..6], axes_of_length_1);
    }
}
