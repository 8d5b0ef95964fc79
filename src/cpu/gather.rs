//! Copies elements between arrays of any strides and contiguous buffers.

use crate::arch::stay_a_loop;
use crate::policy::cores;
use gpuvec_axes::{MAX_AXES, Space, View};

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

    /// True if the elements are adjacent.
    pub(crate) fn is_contiguous(self) -> bool {
        let mut next = self.element_bytes as isize;
        self.lengths.iter().zip(self.strides).rev().all(|(length, stride)| {
            let follows = *length == 1 || *stride == next;
            next *= *length as isize;
            follows
        })
    }
}

/// Packs values that are each in the low bytes of a word. Returns their bytes.
pub(crate) fn low_ends(words: &mut [u64], element_bytes: usize) -> &[u8] {
    let count = words.len();
    if element_bytes == size_of::<u32>() {
        for number in 0..count {
            let low = words[number] as u32;
            let packed: &mut [u32] = bytemuck::cast_slice_mut(words);
            packed[number] = low;
        }
    }
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
    if element_bytes < size_of::<u32>() {
        for number in 0..count {
            let start = number * size_of::<u64>();
            bytes.copy_within(start..start + element_bytes, number * element_bytes);
        }
    }
    &bytes[..count * element_bytes]
}

/// Copies the elements of a grid to a buffer, in the order of the axes.
///
/// # Safety
/// The grid's elements are readable; the first one is at `from`. The buffer is aligned as they are and has room for
/// them. No other thread writes to either.
pub(crate) unsafe fn gather(grid: Grid<'_>, from: *const u8, buffer: *mut u8) {
    Copying { grid, place: READ, from, to: buffer }.run();
}

/// Copies elements from a buffer to their places in a grid.
///
/// # Safety
/// As for [`gather`]; no two elements of the grid are in the same place.
pub(crate) unsafe fn scatter(grid: Grid<'_>, buffer: *const u8, to: *mut u8) {
    Copying { grid, place: WRITTEN, from: buffer, to }.run();
}

/// The indices of the two strides of an [`Axis`].
const READ: usize = 0;
const WRITTEN: usize = 1;

/// A copy between a grid and a buffer. The caller of [`gather`] or [`scatter`] promises the elements and the room for
/// them.
struct Copying<'a> {
    grid: Grid<'a>,
    /// [`READ`] if the grid's elements are read, [`WRITTEN`] if they are written.
    place: usize,
    from: *const u8,
    to: *mut u8,
}

impl Copying<'_> {
    #[inline(never)]
    fn run(self) {
        let Copying { grid, place, from, to } = self;
        if let (&[length], &[stride]) = (grid.lengths, grid.strides)
            && stride == grid.element_bytes as isize
        {
            // SAFETY: the caller's promise: the elements are adjacent in both places.
            return unsafe { to.copy_from_nonoverlapping(from, length * grid.element_bytes) };
        }
        // At least two axes, from the innermost to the outermost.
        let mut axes = [Axis { length: 1, strides: [0; 2] }; MAX_AXES];
        let (mut nearest, mut least) = (0, usize::MAX);
        let mut step = grid.element_bytes as isize;
        let given = grid.lengths.iter().zip(grid.strides).rev();
        for (number, (axis, (&length, &stride))) in axes.iter_mut().zip(given).enumerate() {
            if length > 1 && stride != 0 && stride.unsigned_abs() < least {
                (nearest, least) = (number, stride.unsigned_abs());
            }
            *axis = Axis { length, strides: [step; 2] };
            axis.strides[place] = stride;
            step *= length as isize;
            stay_a_loop();
        }
        // The axis of the nearest elements becomes the innermost, unless a row repeats one element.
        if axes[0].strides[READ] != 0 {
            for number in (0..nearest).rev() {
                axes.swap(number, number + 1);
                stay_a_loop();
            }
        }
        // A loop over rows of few elements takes longer than one over longer columns.
        if axes[0].length < cores::COPIED_SHORT_ROW && axes[0].length < axes[1].length {
            axes.swap(0, 1);
        }
        let copy = copy_of(axes[0].strides, grid.element_bytes);
        Rows { axes: &axes[..grid.lengths.len().clamp(2, MAX_AXES)], from, to }.for_each(copy);
    }
}

/// An axis of a copy.
#[derive(Clone, Copy)]
struct Axis {
    length: usize,
    /// The bytes from an element to the next where they are read, and where they are written.
    strides: [isize; 2],
}

impl Axis {
    /// The addresses at an index.
    #[inline(always)]
    fn at<T>(&self, index: usize, from: *const T, to: *mut T) -> (*const T, *mut T) {
        let [read, written] = self.strides.map(|stride| index as isize * stride);
        (from.wrapping_byte_offset(read), to.wrapping_byte_offset(written))
    }
}

/// The part of a [`Copying`] along two axes or more. The innermost axis comes first.
struct Rows<'a> {
    axes: &'a [Axis],
    from: *const u8,
    to: *mut u8,
}

/// The loop that copies rows with these strides of elements of 1, 2, 4 or 8 bytes. The most frequent strides have loops
/// of their own, which the compiler vectorises.
fn copy_of<'a>([read, written]: [isize; 2], element_bytes: usize) -> fn(&Rows<'a>) {
    let unit = element_bytes as isize;
    let are = |reads, writes| read == reads * unit && written == writes * unit;
    let [of_4, of_8]: [fn(&Rows<'a>); 2] = match element_bytes {
        _ if are(1, 1) => [Rows::copy_bytes; 2],
        1 if are(0, 1) => [Rows::fill::<u8>; 2],
        1 => [Rows::copy_any::<u8>; 2],
        2 if are(0, 1) => [Rows::fill::<u16>; 2],
        2 => [Rows::copy_any::<u16>; 2],
        _ if are(0, 1) => [Rows::fill::<u32>, Rows::fill::<u64>],
        _ if are(-1, 1) => [Rows::copy::<u32, -1, 1>, Rows::copy::<u64, -1, 1>],
        _ if are(2, 1) => [Rows::copy::<u32, 2, 1>, Rows::copy::<u64, 2, 1>],
        _ if are(1, 2) => [Rows::copy::<u32, 1, 2>, Rows::copy::<u64, 1, 2>],
        4 if are(3, 1) => [Rows::copy::<u32, 3, 1>; 2],
        4 if are(4, 1) => [Rows::copy::<u32, 4, 1>; 2],
        _ => [Rows::copy_any::<u32>, Rows::copy_any::<u64>],
    };
    if element_bytes == 8 { of_8 } else { of_4 }
}

impl<'a> Rows<'a> {
    /// Calls `copy` with the rows along the two inner axes, for each index of the others.
    fn for_each(&self, copy: fn(&Rows<'a>)) {
        match self.axes {
            [inner @ .., outer] if inner.len() > 1 => {
                for index in 0..outer.length {
                    let (from, to) = outer.at(index, self.from, self.to);
                    Rows { axes: inner, from, to }.for_each(copy);
                }
            }
            _ => copy(self),
        }
    }

    /// Calls `row` with the inner axis and the addresses of each row.
    #[inline(always)]
    fn for_each_row<T>(&self, row: impl Fn(&Axis, *const T, *mut T)) {
        let [inner, outer] = [self.axes[0], self.axes[1]];
        for index in 0..outer.length {
            let (from, to) = outer.at(index, self.from.cast(), self.to.cast());
            row(&inner, from, to);
            stay_a_loop();
        }
    }

    /// Copies contiguous rows.
    fn copy_bytes(&self) {
        self.for_each_row::<u8>(|inner, from, to| {
            let bytes = inner.length * inner.strides[READ].unsigned_abs();
            // SAFETY: the caller's promise of the copy.
            unsafe { to.copy_from_nonoverlapping(from, bytes) };
        });
    }

    /// Fills each row with one element.
    fn fill<T: Copy>(&self) {
        // SAFETY: the caller's promise of the copy.
        self.for_each_row::<T>(|inner, from, to| unsafe {
            let value = *from;
            (0..inner.length).for_each(|i| to.add(i).write(value));
        });
    }

    /// Copies rows with constant strides, in elements.
    fn copy<T: Copy, const READ: isize, const WRITTEN: isize>(&self) {
        // SAFETY: the caller's promise of the copy.
        self.for_each_row::<T>(|inner, from, to| unsafe {
            for i in 0..inner.length as isize {
                to.offset(i * WRITTEN).write(*from.offset(i * READ));
            }
        });
    }

    /// Copies rows of any strides.
    fn copy_any<T: Copy>(&self) {
        const AT_ONCE: usize = 4;
        // SAFETY: the caller's promise of the copy.
        self.for_each_row::<T>(|inner, mut from, mut to| unsafe {
            // Smaller elements are rare.
            let chunks = if size_of::<T>() < 4 { 0 } else { inner.length / AT_ONCE };
            for _ in 0..chunks {
                let values: [T; AT_ONCE] = std::array::from_fn(|i| *inner.at(i, from, to).0);
                for (i, value) in values.into_iter().enumerate() {
                    inner.at(i, from, to).1.write(value);
                }
                (from, to) = inner.at(AT_ONCE, from, to);
                stay_a_loop();
            }
            for i in 0..inner.length - chunks * AT_ONCE {
                let (from, to) = inner.at(i, from, to);
                to.write(*from);
                stay_a_loop();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::cast_slice;
    use gpuvec_axes::{Argument, Arguments, Axes};
    use proptest::prelude::*;

    const WORDS: usize = 1 << 15;

    /// The address of the middle of some memory.
    fn middle(memory: &mut [u64]) -> usize {
        memory.as_mut_ptr().wrapping_add(WORDS / 2).expose_provenance()
    }

    /// The space and the view of an array with strides in elements: of an input, if `reads`, else of an output.
    fn view(
        shape: &[i64], steps: &[i64], address: usize, bytes: usize, reads: bool,
    ) -> (Space, View) {
        let strides: Vec<_> = steps.iter().map(|step| step * bytes as i64).collect();
        let array = Argument {
            address,
            element_bytes: bytes,
            strides: Some(cast_slice(&strides[..shape.len()])),
        };
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

    /// Lengths of axes: of rows that are short, and of others that are copied in several steps.
    fn shapes() -> impl Strategy<Value = Vec<i64>> {
        prop::collection::vec(prop_oneof![1i64..6, 7i64..13], 0..4)
    }

    proptest! {
        #[test]
        fn elements_are_gathered_in_order(
            shape in shapes(), steps in prop::array::uniform4(-9i64..10), log2_bytes in 0u32..4,
        ) {
            let (bytes, mut memory) = (1 << log2_bytes, filled());
            let (space, view) = view(&shape, &steps, middle(&mut memory), bytes, true);
            let mut buffer = vec![0u64; space.elements()];
            let from = std::ptr::with_exposed_provenance(view.first);
            // SAFETY: at most 9 * 12 * 4 elements before and behind the middle; a word in the buffer for each.
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
            shape in shapes(), gaps in prop::array::uniform4(1i64..3), flips in any::<[bool; 4]>(),
            turn in any::<prop::sample::Index>(), log2_bytes in 0u32..4,
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
            // Any axis is the innermost one.
            let (mut lengths, mut strides) = (space.lengths().to_vec(), space.strides(&view).to_vec());
            if !lengths.is_empty() {
                let turn = turn.index(lengths.len());
                lengths.rotate_left(turn);
                strides.rotate_left(turn);
            }
            let buffer: Vec<u64> =
                (0..space.elements() as u64).map(|i| (!i).wrapping_mul(0x0101_0101)).collect();
            let places = addresses(&lengths, &strides, view.first);
            for (place, value) in places.into_iter().zip(bytes_of(&buffer).chunks(bytes)) {
                expected[place - start..][..bytes].copy_from_slice(value);
            }
            let to = std::ptr::with_exposed_provenance_mut(view.first);
            let grid = Grid::new(&lengths, &strides, bytes);
            // SAFETY: at most (2 * 12)^3 words before and behind the middle; the buffer has a word for each element.
            unsafe { scatter(grid, buffer.as_ptr().cast(), to) };
            prop_assert_eq!(bytes_of(&memory), expected);
        }
    }
}
