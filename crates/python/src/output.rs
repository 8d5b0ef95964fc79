//! The arrays that calls write.

use crate::array::{Array, NumPy};
use crate::foreign::NativeStream;
use crate::shapes::Extent;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// An output of an expression.
pub(crate) struct Output {
    dtype: Py<PyAny>,
    pub(crate) extent: Extent,
}

/// The array that a call writes.
pub(crate) struct Target<'py> {
    pub(crate) array: Array<'py>,
    /// True if the call returns the array's only element.
    is_value: bool,
}

impl Output {
    pub(crate) fn new((dtype, is_reduction): (Py<PyAny>, bool)) -> Self {
        Output { dtype, extent: if is_reduction { Extent::Results } else { Extent::Elements } }
    }

    /// Makes the array of a new result, on the inputs' device if the result has axes. `order` has the axes in their
    /// order in memory, if that is not C order.
    pub(crate) fn new_target<'py>(
        &self, numpy: &NumPy, py: Python<'py>, shape: &[isize], order: Option<&[usize]>,
        device: Option<i32>,
    ) -> PyResult<Option<Target<'py>>> {
        let device = device.filter(|_| !shape.is_empty());
        let array = numpy.empty(shape, order, self.dtype.bind(py), device)?;
        let is_value = match self.extent {
            Extent::Elements => false,
            Extent::Results => shape.is_empty(),
        };
        Ok(numpy.found(&array, None)?.map(|array| Target { array, is_value }))
    }

    /// True if the library can write results of a shape into an array. A single result fits an array of any shape with
    /// one element.
    pub(crate) fn fits(&self, out: &Array, shape: &[isize], is_full: bool) -> bool {
        let is_one = match self.extent {
            Extent::Elements => false,
            Extent::Results => is_full && out.shape().iter().all(|length| *length == 1),
        };
        out.is_output() && out.has_dtype(&self.dtype) && (is_one || out.shape() == shape)
    }
}

impl<'py> Target<'py> {
    /// Returns a caller's array as a target, not checked yet. `None` for other objects, and for arrays that must not be
    /// written.
    #[inline]
    pub(crate) fn given(
        numpy: &NumPy, out: &Bound<'py, PyAny>, stream: Option<NativeStream>,
    ) -> PyResult<Option<Self>> {
        let Some(array) = numpy.found(out, stream)? else { return Ok(None) };
        if array.described.is_some() && numpy.foreign.is_immutable(out)? {
            return Ok(None);
        }
        Ok(Some(Target { array, is_value: false }))
    }

    /// Returns the result of a call: the array, or its only element.
    pub(crate) fn result(self) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array.object();
        match self.is_value {
            true => array.get_item(PyTuple::empty(array.py())),
            false => Ok(array.clone()),
        }
    }
}
