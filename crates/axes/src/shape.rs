//! Splits the axes of a call's shape into kept and reduced axes.

use crate::MAX_RANK;
use crate::arguments::Arguments;
use crate::error::Error;

/// The kept axes of a shape, or the reduced ones.
#[derive(Clone, Copy)]
pub(crate) struct AxisSet {
    /// The numbers of the axes with lengths other than 1, from the outermost to the innermost.
    numbers: [u8; MAX_RANK],
    count: usize,
    elements: usize,
}

impl AxisSet {
    /// The axes in `mask`. The caller has checked that no length is negative.
    fn new(shape: &[i64], mask: u64) -> Result<Self, Error> {
        let (mut numbers, mut count, mut elements, mut is_empty) =
            ([0; MAX_RANK], 0, Some(1i64), false);
        for (axis, &length) in shape.iter().enumerate() {
            if length != 1 && mask >> axis & 1 != 0 {
                numbers[count] = axis as u8;
                count += 1;
                match length {
                    0 => is_empty = true,
                    _ => elements = elements.and_then(|elements| elements.checked_mul(length)),
                }
            }
        }
        let elements = if is_empty { 0 } else { elements.ok_or(Error::TooManyElements)? };
        Ok(AxisSet { numbers, count, elements: elements as usize })
    }

    /// The numbers of the axes, without axes of length 1.
    pub(crate) fn numbers(&self) -> &[u8] {
        &self.numbers[..self.count]
    }

    pub(crate) fn numbers_mut(&mut self) -> &mut [u8] {
        &mut self.numbers[..self.count]
    }

    pub(crate) fn elements(&self) -> usize {
        self.elements
    }
}

/// Returns the kept and the reduced axes of a call's shape, or why the shape is invalid.
pub(crate) fn axes(arguments: &Arguments<'_>) -> Result<(AxisSet, AxisSet), Error> {
    let Arguments { shape, reduced_axes: mask, .. } = *arguments;
    let axes = shape.len();
    if axes > MAX_RANK {
        return Err(Error::TooManyAxes { axes });
    }
    if mask >> axes != 0 {
        return Err(Error::NoSuchAxis { mask, axes });
    }
    if let Some(axis) = shape.iter().position(|length| *length < 0) {
        return Err(Error::NegativeLength { axis, length: shape[axis] });
    }
    let (kept, reduced) = (AxisSet::new(shape, !mask)?, AxisSet::new(shape, mask)?);
    match kept.elements().checked_mul(reduced.elements()) {
        Some(elements) if elements <= isize::MAX as usize => Ok((kept, reduced)),
        _ => Err(Error::TooManyElements),
    }
}
