//! Shapes and strides, right and wrong, and where they lead: the address of every element.

use libfuzzer_sys::arbitrary::{self, Arbitrary};

/// The bytes of the arena in which arrays are.
pub const ARENA: usize = 32 * 1024;
/// The most elements of a call that is made.
pub const MOST: usize = 4096;

#[derive(Arbitrary, Debug)]
pub struct Lengths {
    axes: u8,
    lengths: [u8; 12],
    wild: i64,
}

impl Lengths {
    pub fn shape(&self) -> Vec<i64> {
        const USUAL: [i64; 16] = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65];
        let axes = match self.axes {
            axes @ 250.. => usize::from(axes) - 220,
            axes @ 220.. => usize::from(axes % 13),
            axes => usize::from(axes % 5),
        };
        let length = |axis| match self.lengths.get(axis) {
            None => 1,
            Some(255) => self.wild,
            Some(254) => -1,
            Some(byte) if axes > 4 => 1 + i64::from(byte % 2),
            Some(byte) => USUAL[usize::from(byte % 16)],
        };
        (0..axes).map(length).collect()
    }
}

/// The layout of an array.
#[derive(Arbitrary, Debug)]
pub enum Layout {
    /// Within the arena: the axes in some order with gaps, some reversed, some of stride 0.
    Dense {
        order: u8,
        reversed: u8,
        repeated: [u8; 2],
        gap: u8,
        offset: u16,
    },
    COrder {
        offset: u16,
    },
    /// That of another array, some bytes further.
    As {
        other: u8,
        shift: i8,
    },
    /// Any strides of some bytes.
    Near {
        offset: u16,
        strides: [i8; 4],
    },
    Wild {
        address: u64,
        strides: [i64; 2],
    },
    Null {
        with_strides: bool,
    },
}

/// An array: an address, strides in bytes (none stand for C order), and the bytes of an element.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub address: usize,
    pub strides: Option<Vec<i64>>,
    pub size: usize,
}

impl View {
    /// Makes the array of that layout, whose elements have `size` bytes, beside the arrays so far.
    pub fn new(layout: &Layout, size: usize, shape: &[i64], arena: usize, others: &[View]) -> View {
        let aligned = |offset: usize, room: usize| arena + offset % (room / size + 1) * size;
        let view = |address, strides| View { address, strides, size };
        match layout {
            Layout::Dense { order, reversed, repeated, gap, offset } => {
                let repeated = repeated[0] & repeated[1];
                let (mut strides, mut span) = (vec![0; shape.len()], size as i64);
                for turn in (0..shape.len()).rev() {
                    let axis = (turn + usize::from(*order)) % shape.len();
                    if repeated >> (axis % 8) & 1 == 1 {
                        continue;
                    }
                    strides[axis] = span.wrapping_add((gap % 3) as i64 * size as i64);
                    span = strides[axis].wrapping_mul(shape[axis].max(1));
                }
                let room = usize::try_from(span).ok().and_then(|span| ARENA.checked_sub(span));
                let mut address = aligned(usize::from(*offset), room.unwrap_or(0));
                for axis in (0..shape.len()).filter(|axis| reversed >> (axis % 8) & 1 == 1) {
                    let last = strides[axis].wrapping_mul((shape[axis] - 1).max(0));
                    address = address.wrapping_add_signed(last as isize);
                    strides[axis] = strides[axis].wrapping_neg();
                }
                view(address, Some(strides))
            }
            Layout::COrder { offset } => {
                let elements = shape.iter().fold(1_i64, |all, length| all.wrapping_mul(*length));
                let bytes = usize::try_from(elements.wrapping_mul(size as i64)).ok();
                let room = bytes.and_then(|bytes| ARENA.checked_sub(bytes)).unwrap_or(0);
                view(aligned(usize::from(*offset), room), None)
            }
            Layout::As { other, shift } => {
                let other = others.get(usize::from(*other) % others.len().max(1));
                let (address, strides) =
                    other.map_or((arena, None), |other| (other.address, other.strides.clone()));
                let shift = if shift % 2 == 0 { 0 } else { isize::from(*shift) };
                view(address.wrapping_add_signed(shift), strides)
            }
            Layout::Near { offset, strides } => {
                let stride = |axis| i64::from(strides[axis % 4]);
                let address = arena + usize::from(*offset) % ARENA;
                view(address, Some((0..shape.len()).map(stride).collect()))
            }
            Layout::Wild { address, strides } => {
                let strides = (0..shape.len()).map(|axis| strides[axis % 2]).collect();
                view(*address as usize, Some(strides))
            }
            Layout::Null { with_strides } => {
                view(0, with_strides.then(|| vec![size as i64; shape.len()]))
            }
        }
    }

    /// The strides along all axes; 0 along those that are reduced.
    pub fn along(&self, shape: &[i64], reduced: u64) -> Vec<i64> {
        let kept = kept(shape, reduced);
        let strides = self.strides.clone().unwrap_or_else(|| c_order(&kept, self.size as i64));
        let stride = |(axis, stride)| if is_reduced(axis, reduced) { 0 } else { stride };
        strides.into_iter().enumerate().map(stride).collect()
    }

    /// The addresses of all elements, in C order of the shape.
    pub fn elements(&self, shape: &[i64], reduced: u64) -> Vec<usize> {
        let offsets = offsets(&kept(shape, reduced), &self.along(shape, reduced));
        offsets.into_iter().map(|offset| self.address.wrapping_add(offset as usize)).collect()
    }

    /// The addresses of all bytes of the elements.
    pub fn bytes(&self, shape: &[i64], reduced: u64) -> Vec<usize> {
        let bytes = |first: usize| (0..self.size).map(move |byte| first.wrapping_add(byte));
        self.elements(shape, reduced).into_iter().flat_map(bytes).collect()
    }

    /// Returns whether each stride spans all that is along the smaller ones, so that no elements overlap.
    pub fn is_nested(&self, shape: &[i64], reduced: u64) -> bool {
        let axes = self.along(shape, reduced).into_iter().zip(kept(shape, reduced));
        let mut axes: Vec<(u64, u64)> = axes
            .filter(|(_, length)| *length > 1)
            .map(|(stride, length)| (stride.unsigned_abs(), length as u64))
            .collect();
        axes.sort_unstable();
        let mut span = self.size as u64;
        axes.into_iter().all(|(stride, length)| {
            let is_outside = stride >= span;
            span = span.saturating_add(stride.saturating_mul(length - 1));
            is_outside
        })
    }

    /// Returns whether the address and the strides are multiples of the elements' size.
    pub fn is_aligned(&self, shape: &[i64], reduced: u64) -> bool {
        let mut strides = self.along(shape, reduced).into_iter().zip(shape);
        self.address.is_multiple_of(self.size)
            && strides.all(|(stride, length)| *length <= 1 || stride % self.size as i64 == 0)
    }
}

pub fn is_reduced(axis: usize, reduced: u64) -> bool {
    reduced >> axis & 1 == 1
}

/// The shape with a length of 1 where it is reduced.
pub fn kept(shape: &[i64], reduced: u64) -> Vec<i64> {
    let length =
        |(axis, length): (usize, &i64)| if is_reduced(axis, reduced) { 1 } else { *length };
    shape.iter().enumerate().map(length).collect()
}

/// For each element in C order, the number of its result.
pub fn results(shape: &[i64], reduced: u64) -> Vec<usize> {
    let strides = View { address: 0, strides: None, size: 1 }.along(shape, reduced);
    offsets(shape, &strides).into_iter().map(|number| number as usize).collect()
}

/// The number of elements of a shape; none if it is not a shape, or has 2^63 or more.
pub fn count(shape: &[i64]) -> Option<i64> {
    if shape.iter().any(|length| *length < 0) {
        return None;
    }
    let zero = shape.contains(&0).then_some(0);
    zero.or_else(|| shape.iter().try_fold(1_i64, |all, length| all.checked_mul(*length)))
}

/// The number of elements that are reduced along axes; none, too, for 2^63 or more results, or elements of each.
pub fn count_along(shape: &[i64], reduced: u64) -> Option<i64> {
    count(&kept(shape, reduced))?.checked_mul(count(&kept(shape, !reduced))?)
}

fn c_order(shape: &[i64], size: i64) -> Vec<i64> {
    let inner = |axis: usize| &shape[axis + 1..];
    let product =
        |lengths: &[i64]| lengths.iter().fold(size, |all, length| all.wrapping_mul(*length));
    (0..shape.len()).map(|axis| product(inner(axis))).collect()
}

fn offsets(shape: &[i64], strides: &[i64]) -> Vec<i64> {
    if shape.contains(&0) {
        return Vec::new();
    }
    shape.iter().zip(strides).fold(vec![0], |all, (length, stride)| {
        let along =
            |first: i64| (0..*length).map(move |i| first.wrapping_add(i.wrapping_mul(*stride)));
        all.into_iter().flat_map(along).collect()
    })
}
