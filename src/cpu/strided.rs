//! Copies the elements of blocks between arrays of any strides and buffers, where they follow each other.

use gpuvec_axes::{Space, View};

/// A grid of elements in memory.
#[derive(Clone, Copy)]
pub(crate) struct Grid<'a> {
    /// The lengths of the axes, from the outermost to the innermost.
    lengths: &'a [usize],
    /// The bytes from an element to the next along each axis.
    strides: &'a [isize],
    element_bytes: usize,
}

impl<'a> Grid<'a> {
    /// The grid of axes of these lengths and strides.
    pub(crate) fn new(lengths: &'a [usize], strides: &'a [isize], element_bytes: usize) -> Self {
        Grid { lengths, strides, element_bytes }
    }

    /// The elements of an array in a block.
    pub(crate) fn of(block: &'a Space, view: &'a View) -> Self {
        Grid::new(block.lengths(), block.strides(view), view.element_bytes)
    }

    /// Says whether the elements follow each other.
    pub(crate) fn is_contiguous(self) -> bool {
        let mut next = self.element_bytes as isize;
        self.lengths.iter().zip(self.strides).rev().all(|(length, stride)| {
            let follows = *length == 1 || *stride == next;
            next *= *length as isize;
            follows
        })
    }
}

/// Moves values, each in the low end of a word, together: returns their bytes.
pub(crate) fn low_ends(words: &mut [u64], element_bytes: usize) -> &[u8] {
    let count = words.len();
    // The low end of a word comes first.
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
    for number in 0..count {
        let start = number * size_of::<u64>();
        bytes.copy_within(start..start + element_bytes, number * element_bytes);
    }
    &bytes[..count * element_bytes]
}

/// Copies the elements of a grid to a buffer, in the order of the walk.
///
/// # Safety
/// The grid has its elements from `from` on, and the buffer, which is aligned as they are, has room
/// for them. No other thread writes to either.
pub(crate) unsafe fn gather(grid: Grid<'_>, from: *const u8, buffer: *mut u8) {
    // SAFETY: this function's promise; elements have one of these sizes.
    unsafe {
        match grid.element_bytes {
            1 => gather_as::<u8>(grid, from, buffer.cast()),
            2 => gather_as::<u16>(grid, from, buffer.cast()),
            4 => gather_as::<u32>(grid, from, buffer.cast()),
            _ => gather_as::<u64>(grid, from, buffer.cast()),
        }
    }
}

/// Copies the elements of a grid from a buffer to where they are to be.
///
/// # Safety
/// As for [`gather`]; no two elements of the grid are in the same place.
pub(crate) unsafe fn scatter(grid: Grid<'_>, buffer: *const u8, to: *mut u8) {
    // SAFETY: this function's promise; elements have one of these sizes.
    unsafe {
        match grid.element_bytes {
            1 => scatter_as::<u8>(grid, buffer.cast(), to),
            2 => scatter_as::<u16>(grid, buffer.cast(), to),
            4 => scatter_as::<u32>(grid, buffer.cast(), to),
            _ => scatter_as::<u64>(grid, buffer.cast(), to),
        }
    }
}

/// # Safety
/// As for [`gather`], of elements of the type's size.
unsafe fn gather_as<T: Copy>(grid: Grid<'_>, from: *const u8, buffer: *mut T) {
    let mut place = buffer;
    for_each_row(grid, |offset, len, stride| {
        let row = from.wrapping_offset(offset).cast::<T>();
        // SAFETY: the caller promises the row, and room for it.
        unsafe {
            match stride {
                0 => {
                    let value = *row;
                    (0..len).for_each(|i| place.add(i).write(value));
                }
                _ if stride == size_of::<T>() as isize => place.copy_from_nonoverlapping(row, len),
                _ => (0..len).for_each(|i| place.add(i).write(*at(row, i, stride))),
            }
        }
        place = place.wrapping_add(len);
    });
}

/// # Safety
/// As for [`scatter`], of elements of the type's size.
unsafe fn scatter_as<T: Copy>(grid: Grid<'_>, buffer: *const T, to: *mut u8) {
    let mut place = buffer;
    for_each_row(grid, |offset, len, stride| {
        let row = to.wrapping_offset(offset).cast::<T>();
        // SAFETY: the caller promises the row, and its elements in the buffer.
        unsafe {
            match stride == size_of::<T>() as isize {
                true => row.copy_from_nonoverlapping(place, len),
                false => (0..len).for_each(|i| at(row, i, stride).cast_mut().write(*place.add(i))),
            }
        }
        place = place.wrapping_add(len);
    });
}

/// The address of an element of a row.
#[inline(always)]
fn at<T>(row: *const T, index: usize, stride: isize) -> *const T {
    row.wrapping_byte_offset(index as isize * stride)
}

/// Calls `row` with the offset, the length and the stride of each row, in order: of the innermost axis.
#[inline(always)]
fn for_each_row(grid: Grid<'_>, mut row: impl FnMut(isize, usize, isize)) {
    match (grid.lengths, grid.strides) {
        ([outer @ .., rows, length], [steps @ .., step, stride]) => {
            for_each_start(outer, steps, 0, &mut |start| {
                for index in 0..*rows as isize {
                    row(start + index * step, *length, *stride);
                }
            });
        }
        ([length], [stride]) => row(0, *length, *stride),
        _ => row(0, 1, 0),
    }
}

/// Calls `each` with the offset of every element of some axes, in order.
fn for_each_start(
    lengths: &[usize], strides: &[isize], start: isize, each: &mut impl FnMut(isize),
) {
    match (lengths, strides) {
        ([length, lengths @ ..], [stride, strides @ ..]) => {
            for index in 0..*length as isize {
                for_each_start(lengths, strides, start + index * stride, each);
            }
        }
        _ => each(start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuvec_axes::{Argument, Arguments, Axes};
    use proptest::prelude::*;

    const WORDS: usize = 2048;

    /// The address of the middle of some memory.
    fn middle(memory: &mut [u64]) -> usize {
        memory.as_mut_ptr().wrapping_add(WORDS / 2).expose_provenance()
    }

    /// The elements of a call of one array, by strides in elements: of an input beside an output elsewhere, or of
    /// an output.
    fn view(
        shape: &[i64], steps: &[i64], address: usize, bytes: usize, reads: bool,
    ) -> (Space, View) {
        let strides: Vec<_> = steps.iter().map(|step| step * bytes as i64).collect();
        let array =
            Argument { address, element_bytes: bytes, strides: Some(&strides[..shape.len()]) };
        let elsewhere = Argument { address: 1 << 60, element_bytes: 8, strides: None };
        let outputs = [if reads { elsewhere } else { array }];
        let inputs = if reads { &[array][..] } else { &[] };
        let arguments = Arguments {
            shape,
            inputs,
            outputs: &outputs,
            whole_outputs: 0,
            reduced_axes: 0,
            is_indexed: false,
        };
        let mut views = [View::default(); 2];
        let axes = Axes::new(&arguments, &mut views[..inputs.len() + 1]).unwrap().unwrap();
        (*axes.kept(), views[0])
    }

    /// The addresses of a view's elements, in the order of the walk.
    fn addresses(lengths: &[usize], strides: &[isize], first: usize) -> Vec<usize> {
        let ([length, lengths @ ..], [stride, strides @ ..]) = (lengths, strides) else {
            return vec![first];
        };
        let starts = (0..*length as isize).map(|index| first.wrapping_add_signed(index * stride));
        starts.flat_map(|start| addresses(lengths, strides, start)).collect()
    }

    fn bytes_of(memory: &[u64]) -> Vec<u8> {
        memory.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn filled() -> Vec<u64> {
        (1..=WORDS as u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect()
    }

    proptest! {
        #[test]
        fn elements_are_gathered_in_order(
            shape in prop::collection::vec(1i64..6, 0..4), steps in prop::array::uniform4(-9i64..10),
            log2_bytes in 0u32..4,
        ) {
            let (bytes, mut memory) = (1 << log2_bytes, filled());
            let (space, view) = view(&shape, &steps, middle(&mut memory), bytes, true);
            let mut buffer = vec![0u64; space.elements()];
            let from = std::ptr::with_exposed_provenance(view.first);
            // SAFETY: at most 9 * 5 * 4 elements before and behind the middle; a word in the buffer for each.
            unsafe { gather(Grid::of(&space, &view), from, buffer.as_mut_ptr().cast()) };
            let (all, start) = (bytes_of(&memory), memory.as_ptr().addr());
            let expected = addresses(space.lengths(), space.strides(&view), view.first)
                .into_iter()
                .flat_map(|address| all[address - start..][..bytes].to_vec());
            let found = bytes_of(&buffer)[..space.elements() * bytes].to_vec();
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }

        #[test]
        fn elements_are_scattered_to_their_places_and_nothing_else_changes(
            shape in prop::collection::vec(1i64..6, 0..4), gaps in prop::array::uniform4(1i64..3),
            flips in any::<[bool; 4]>(), log2_bytes in 0u32..4,
        ) {
            let (bytes, mut memory, mut steps) = (1 << log2_bytes, filled(), [0; 4]);
            let mut next = 1;
            for (axis, length) in shape.iter().enumerate().rev() {
                steps[axis] = if flips[axis] { -next * gaps[axis] } else { next * gaps[axis] };
                next *= gaps[axis] * length;
            }
            let mut expected = bytes_of(&memory);
            let start = memory.as_ptr().addr();
            let (space, view) = view(&shape, &steps, middle(&mut memory), bytes, false);
            let buffer: Vec<u64> = (0..space.elements() as u64).map(|i| !i * 0x0101_0101).collect();
            let places = addresses(space.lengths(), space.strides(&view), view.first);
            for (place, value) in places.into_iter().zip(bytes_of(&buffer).chunks(bytes)) {
                expected[place - start..][..bytes].copy_from_slice(value);
            }
            let to = std::ptr::with_exposed_provenance_mut(view.first);
            // SAFETY: at most 10^3 elements before and behind the middle; the buffer has a word for each.
            unsafe { scatter(Grid::of(&space, &view), buffer.as_ptr().cast(), to) };
            prop_assert_eq!(bytes_of(&memory), expected);
        }
    }
}
