//! The inputs of expressions: arrays and scalars.

use crate::array::{Array, scalar_bits};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};

/// An input of an expression.
pub(crate) struct Input {
    pub(crate) name: Py<PyString>,
    dtype: Py<PyAny>,
    /// True for an array that the formula reads and that takes part in broadcasting.
    pub(crate) is_counted: bool,
    form: Form,
}

/// The form in which a caller passes an input.
#[derive(PartialEq)]
enum Form {
    Array,
    Float,
    Integer,
    Bool,
    /// A NumPy scalar: the address of its class, which NumPy keeps, and the bytes of its value.
    Scalar(usize, usize),
    /// A float of another package, which this package's Python code converts.
    Other,
}

impl Input {
    /// Makes an input from its name, its dtype, its form, and true if it has the elements' shape. The form is "array"
    /// or the name of a class of Python or NumPy.
    pub(crate) fn new(
        py: Python<'_>, (name, dtype, form, is_counted): (Py<PyString>, Py<PyAny>, String, bool),
    ) -> PyResult<Self> {
        let class = dtype.getattr(py, "type")?.as_ptr().addr();
        let form = match form.as_str() {
            "array" => Form::Array,
            "float" => Form::Float,
            "int" => Form::Integer,
            "bool" => Form::Bool,
            "bfloat16" => Form::Other,
            _ => Form::Scalar(class, dtype.getattr(py, "itemsize")?.extract(py)?),
        };
        Ok(Input { name, dtype, is_counted, form })
    }

    pub(crate) fn is_array(&self) -> bool {
        self.form == Form::Array
    }

    /// True if the library can read an array as this input.
    pub(crate) fn accepts(&self, array: &Array) -> bool {
        array.is_input() && array.has_dtype(&self.dtype)
    }

    /// Returns the bits of a scalar. The library reads the lowest bytes. Returns `None` if the value has another class
    /// or does not fit.
    pub(crate) fn bits(&self, value: &Bound<'_, PyAny>) -> Option<u64> {
        match self.form {
            Form::Float => value.cast_exact::<PyFloat>().ok().map(|it| it.value().to_bits()),
            Form::Integer => {
                value.cast_exact::<PyInt>().ok()?.extract().ok().map(i64::cast_unsigned)
            }
            Form::Bool => value.cast_exact::<PyBool>().ok().map(|it| it.is_true().into()),
            Form::Scalar(class, bytes) if value.get_type_ptr().addr() == class => {
                // SAFETY: the class is NumPy's, and its values have this size.
                Some(unsafe { scalar_bits(value, bytes) })
            }
            Form::Scalar(..) | Form::Other | Form::Array => None,
        }
    }
}
