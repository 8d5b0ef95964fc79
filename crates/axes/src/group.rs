//! Flips, sorts and merges axes: either the kept axes of a call, or the reduced axes.

use crate::arguments::Argument;
use crate::shape::AxisSet;
use crate::space::Space;
use crate::{MAX_AXES, MAX_RANK};
use std::cmp::Ordering;

/// Some of the arguments. All arguments without strides have the same C order.
#[derive(Clone, Copy)]
pub(crate) struct Arrays<'a> {
    pub(crate) arguments: &'a [Argument<'a>],
    /// Bit mask of the arguments to consider.
    pub(crate) which: u64,
    pub(crate) shape: &'a [i64],
    /// The strides of arrays in C order, in elements.
    pub(crate) weights: &'a [i64; MAX_RANK],
}

impl<'a> Arrays<'a> {
    /// Iterates over the strides of each array along two axes.
    fn strides(self, axis: u8, other: u8) -> impl Iterator<Item = (i64, i64)> {
        let both = move |(_, argument)| (self.stride(argument, axis), self.stride(argument, other));
        self.numbered().map(both)
    }

    /// The arrays with their numbers among the arguments.
    pub(crate) fn numbered(self) -> impl Iterator<Item = (usize, &'a Argument<'a>)> {
        let all = self.arguments.iter().enumerate();
        all.filter(move |(number, _)| self.which >> number & 1 != 0)
    }

    /// The stride of one of the arrays along an axis.
    #[inline(always)]
    pub(crate) fn stride(self, argument: &Argument<'_>, axis: u8) -> i64 {
        let axis = usize::from(axis);
        match argument.strides {
            Some(strides) => i64::from_ne_bytes(strides[axis]),
            None => self.weights[axis] * argument.element_bytes as i64,
        }
    }
}

/// The arrays of a call, by rank: earlier arrays decide the order of axes first.
pub(crate) struct Group<'a>(pub(crate) [Arrays<'a>; 3]);

/// Axes after sorting and merging, from the outermost to the innermost.
#[derive(Default)]
pub(crate) struct Merged {
    lengths: [usize; MAX_AXES],
    /// The innermost of the axes that each merged axis consists of. Its strides are the merged axis's strides.
    innermost: [u8; MAX_AXES],
    count: usize,
    /// Bit mask of the flipped axes, by their numbers before merging.
    flipped: u32,
}

impl Merged {
    /// One axis of length 0 in place of `axes`.
    pub(crate) fn empty(axes: &[u8]) -> Self {
        let mut merged = Merged::default();
        merged.push(0, axes[0]);
        merged
    }

    fn push(&mut self, length: usize, innermost: u8) {
        if let Some(place) = self.lengths.get_mut(self.count) {
            *place = length;
            self.innermost[self.count] = innermost;
        }
        self.count += 1;
    }

    /// The number of axes. It may exceed [`MAX_AXES`]; the caller then fails.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// For each merged axis, the innermost axis that it consists of.
    pub(crate) fn innermost(&self) -> &[u8] {
        &self.innermost[..self.count]
    }

    /// The space of the axes. Views have `skipped` other axes before them.
    pub(crate) fn space(&self, skipped: usize) -> Space {
        Space::new(&self.lengths[..self.count], skipped)
    }

    /// Iterates over the flipped axes, by their numbers before merging.
    pub(crate) fn flipped(&self) -> impl Iterator<Item = u8> {
        let mut rest = self.flipped;
        std::iter::from_fn(move || {
            let axis = (rest != 0).then(|| rest.trailing_zeros() as u8)?;
            rest &= rest - 1;
            Some(axis)
        })
    }

    /// A stride along an axis in the direction of iteration.
    pub(crate) fn signed(&self, axis: u8, stride: i64) -> i64 {
        if self.flipped >> axis & 1 != 0 { -stride } else { stride }
    }
}

impl Group<'_> {
    /// Flips, sorts and merges axes. All of them are longer than 1.
    pub(crate) fn merge(&self, mut axes: AxisSet) -> Merged {
        let axes = axes.numbers_mut();
        self.sort(axes);
        let backwards = axes.iter().filter(|axis| self.is_backwards(**axis));
        let flipped = backwards.fold(0, |flipped, axis| flipped | 1 << axis);
        let mut merged = Merged { flipped, ..Merged::default() };
        let length_of = |axis: u8| self.0[0].shape[usize::from(axis)] as usize;
        let mut axes = axes.iter().copied();
        let Some(mut last) = axes.next() else { return merged };
        let mut length = length_of(last);
        for axis in axes {
            if self.are_one(&merged, last, axis) {
                length *= length_of(axis);
            } else {
                merged.push(length, last);
                length = length_of(axis);
            }
            last = axis;
        }
        merged.push(length, last);
        merged
    }

    /// Iterates over the strides of all arrays along two axes, in the order of rank.
    fn strides(&self, axis: u8, other: u8) -> impl Iterator<Item = (i64, i64)> {
        self.0.iter().flat_map(move |arrays| arrays.strides(axis, other))
    }

    /// True if some array has a negative stride along the axis, and no array has a positive one.
    fn is_backwards(&self, axis: u8) -> bool {
        let ends = |(least, most): (i64, i64), (stride, _): (i64, i64)| {
            (least.min(stride), most.max(stride))
        };
        let (least, most) = self.strides(axis, axis).fold((0, 0), ends);
        least < 0 && most == 0
    }

    /// Sorts axes by the magnitudes of their strides, the largest first. An insertion sort, in which axes that compare
    /// as equal keep their order: the comparison is not transitive, so library sorts cannot be used.
    fn sort(&self, axes: &mut [u8]) {
        for i in 1..axes.len() {
            let mut place = i;
            for j in (0..i).rev() {
                match self.compare(axes[j], axes[i]) {
                    Ordering::Less => place = j,
                    Ordering::Equal => {}
                    Ordering::Greater => break,
                }
            }
            if place < i {
                axes[place..=i].rotate_right(1);
            }
        }
    }

    /// Compares the strides along two axes in the first array in which they differ and neither is 0.
    fn compare(&self, axis: u8, other: u8) -> Ordering {
        let order = |(a, b): (i64, i64)| match a == 0 || b == 0 {
            true => Ordering::Equal,
            false => a.unsigned_abs().cmp(&b.unsigned_abs()),
        };
        let mut orders = self.strides(axis, other).map(order);
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// True if every array can treat the two axes as one: the outer stride equals the inner stride times the inner
    /// length. (The product cannot wrap to the outer stride: the array would exceed the address space.)
    fn are_one(&self, merged: &Merged, outer: u8, inner: u8) -> bool {
        let length = self.0[0].shape[usize::from(inner)];
        let is_one = |(a, b): (i64, i64)| {
            merged.signed(outer, a) == merged.signed(inner, b).wrapping_mul(length)
        };
        self.strides(outer, inner).all(is_one)
    }
}
