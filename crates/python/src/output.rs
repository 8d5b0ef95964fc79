//! The arrays that calls write.

use crate::array::{Array, Arrays};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The elements that a call writes: an array with an input's shape, or one element for a reduction.
pub(crate) struct Output {
    pub(crate) dtype: Py<PyAny>,
    pub(crate) is_reduction: bool,
}

/// The array that a call writes.
pub(crate) struct Target<'py> {
    /// The array as a Python object, which the call returns.
    pub(crate) array: Bound<'py, PyAny>,
    /// True if the call returns the only element in place of the array.
    is_value: bool,
    /// Its elements.
    pub(crate) elements: Array<'py>,
}

impl Output {
    /// Returns the caller's array, or a new one of a shape if `out` is None: on a device, if inputs are there, and
    /// with its axes in an order in memory. `None` if the caller's is not an array.
    pub(crate) fn target<'py>(
        &self, arrays: Arrays, out: &Bound<'py, PyAny>, shape: &[isize], order: Option<Vec<usize>>,
        device: Option<i32>,
    ) -> PyResult<Option<Target<'py>>> {
        if !out.is_none() {
            return Target::found(arrays, out.clone(), false);
        }
        // A result without axes is in memory of the host.
        let device = device.filter(|_| !shape.is_empty());
        let (numpy, py) = (arrays.numpy, out.py());
        let array = match order {
            None => numpy.empty(shape.iter().copied(), py, &self.dtype, device)?,
            Some(order) => numpy.empty_in_order(shape, &order, py, &self.dtype, device)?,
        };
        Target::found(arrays, array, self.is_reduction && shape.is_empty())
    }

    /// True if the library can write results of a shape there, or a single one into an array of any shape.
    pub(crate) fn fits(&self, out: &Array, shape: &[isize], is_single: bool) -> bool {
        self.is_typed(out) && (out.shape() == shape || (is_single && out.size() == 1))
    }

    /// True if the library can write elements of the result's type there.
    fn is_typed(&self, out: &Array) -> bool {
        out.is_output() && out.has_dtype(&self.dtype)
    }
}

impl<'py> Target<'py> {
    /// Returns an array as a target, which is not checked yet; `None` if it is something else.
    pub(crate) fn found(
        arrays: Arrays, array: Bound<'py, PyAny>, is_value: bool,
    ) -> PyResult<Option<Self>> {
        let Some(elements) = arrays.found(&array)? else { return Ok(None) };
        if elements.described.is_some() && arrays.numpy.is_immutable(&array)? {
            return Ok(None);
        }
        Ok(Some(Target { array, is_value, elements }))
    }

    /// Returns what a call returns: the array, or its value.
    pub(crate) fn result(self) -> PyResult<Bound<'py, PyAny>> {
        match self.is_value {
            true => self.array.get_item(PyTuple::empty(self.array.py())),
            false => Ok(self.array),
        }
    }
}
