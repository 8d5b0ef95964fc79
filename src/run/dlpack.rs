//! Reads DLPack tensors as the arguments of an expression.

use super::arguments::{Given, INPUT_NAMES, OUTPUT_NAMES, Pointers, gpuvec_array};
use super::passes::evaluate;
use crate::call::{Extent, MAX_ARRAYS};
use crate::error::Error;
use crate::objects::expression::Expression;
use crate::objects::stream::gpuvec_stream;
use arrayvec::ArrayVec;
use gpuvec_axes::{MAX_RANK, c_order};
use gpuvec_expr::{Element, Form};
use std::ffi::c_void;

/// A `DLTensor`, as dlpack.h defines it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// The types of devices whose memory calls may use: kDLCPU, kDLCUDA, kDLCUDAHost and kDLCUDAManaged.
const DEVICE_TYPES: [i32; 4] = [1, CUDA, 3, 13];
const CUDA: i32 = 2;

/// The lengths of axes, or their strides in bytes.
type PerAxis = ArrayVec<i64, MAX_RANK>;

/// A tensor's elements.
struct Elements {
    argument: &'static str,
    device_type: i32,
    data: *mut c_void,
    shape: PerAxis,
    strides: PerAxis,
}

/// Evaluates an expression over tensors: see [`evaluate`]. The shapes of inputs are broadcast to the shape of the
/// elementwise outputs, or to their common shape if all outputs are reductions.
///
/// # Safety
/// `inputs` has a DLPack tensor for each declared input, and `outputs` a tensor for each output. Their memory is as
/// [`Given::new`] demands.
pub(crate) unsafe fn evaluate_tensors(
    expression: &Expression, inputs: *const *const c_void, outputs: *const *const c_void,
    reduced_axes: u64, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let program = expression.formula.program();
    let (count, results) = (program.declared().len(), program.outputs().len());
    for (argument, is_null, n) in
        [("inputs", inputs.is_null(), count), ("outputs", outputs.is_null(), results)]
    {
        if is_null && n > 0 {
            return Err(Error::Null { argument, n });
        }
    }
    let mut all: ArrayVec<Place, MAX_ARRAYS> = ArrayVec::new();
    for (number, input) in program.declared().enumerate() {
        let role = match input.form {
            _ if !expression.any_pass_uses(number) => Role::Unused,
            Form::Array => Role::Array,
            Form::Scalar | Form::Number => Role::Scalar,
        };
        let place = inputs.wrapping_add(number);
        all.push(Place { argument: INPUT_NAMES[number], place, element: input.element, role });
    }
    for (number, output) in program.outputs().iter().enumerate() {
        let (argument, place) = (OUTPUT_NAMES[number], outputs.wrapping_add(number));
        let role = Role::Output(Extent::of(output.kind));
        all.push(Place { argument, place, element: output.element, role });
    }
    let mut shape = PerAxis::new();
    for place in &all {
        let Some(tensor) = place.read()? else { continue };
        match place.role {
            Role::Array => tensor.widen(&mut shape)?,
            Role::Scalar => tensor.check_scalar()?,
            Role::Output(Extent::Elements) => {
                shape = tensor.shape;
                break;
            }
            Role::Output(Extent::Results | Extent::Groups) | Role::Unused => {}
        }
    }
    // On the heap, since all strides may take 10 KiB.
    let mut strides: Vec<i64> = Vec::new();
    let (count_of_strides, purpose) = (all.len() * shape.len(), "the strides of tensors");
    let bytes = count_of_strides * size_of::<i64>();
    let none_left = |_| Error::OutOfHostMemory { bytes, purpose };
    strides.try_reserve_exact(count_of_strides).map_err(none_left)?;
    let mut arrays: ArrayVec<gpuvec_array, MAX_ARRAYS> = ArrayVec::new();
    for place in &all {
        let first = strides.len();
        let data = match place.read()? {
            Some(tensor) => {
                strides.extend(match place.role {
                    Role::Array => tensor.broadcast(&shape)?,
                    Role::Output(Extent::Elements) => tensor.of_result(&shape, 0)?,
                    Role::Output(Extent::Results | Extent::Groups) => {
                        tensor.of_result(&shape, reduced_axes)?
                    }
                    Role::Scalar | Role::Unused => PerAxis::new(),
                });
                tensor.data
            }
            None => std::ptr::null_mut(),
        };
        arrays.push(gpuvec_array { data, strides: strides[first..].as_ptr() });
    }
    let [inputs, outputs] = [&arrays[..], &arrays[count..]];
    let [inputs, outputs] = [inputs, outputs].map(|arrays| Pointers::Strided(arrays.as_ptr()));
    // SAFETY: this function's promise; there are strides for each axis.
    let given =
        unsafe { Given::new(expression, &shape, reduced_axes, inputs, outputs, &OUTPUT_NAMES) };
    evaluate(&given, stream)
}

/// The role of a tensor in an expression.
#[derive(Clone, Copy)]
enum Role {
    Array,
    Scalar,
    Unused,
    Output(Extent),
}

/// The place that stores the address of a tensor, and the expression's declaration. [`evaluate_tensors`] promises that
/// the tensor is readable.
struct Place {
    argument: &'static str,
    place: *const *const c_void,
    element: Element,
    role: Role,
}

impl Place {
    /// Reads the tensor, if it is used.
    #[inline(never)]
    fn read(&self) -> Result<Option<Elements>, Error> {
        let Place { argument, place, element, role } = *self;
        if matches!(role, Role::Unused) {
            return Ok(None);
        }
        // SAFETY: the promise of `evaluate_tensors`.
        let tensor = unsafe { place.read_unaligned() }.cast::<Tensor>();
        if tensor.is_null() {
            return Err(Error::NullTensor { argument });
        }
        // SAFETY: the promise of `evaluate_tensors`.
        let tensor = unsafe { tensor.read_unaligned() };
        let Tensor { code, bits, lanes, ndim, device_type, .. } = tensor;
        if (code, usize::from(bits), lanes) != (type_code(element), 8 * element.bytes(), 1) {
            let expected = element.name();
            return Err(Error::TensorType { argument, code, bits, lanes, expected });
        }
        if !DEVICE_TYPES.contains(&device_type) {
            return Err(Error::TensorDevice { argument, device_type });
        }
        let axes = usize::try_from(ndim).ok().filter(|axes| *axes <= MAX_RANK);
        let axes = axes.ok_or(Error::TensorAxes { argument, ndim, wanted: MAX_RANK })?;
        if axes > 0 && tensor.shape.is_null() {
            return Err(Error::NullTensor { argument });
        }
        let number = |of: *const i64| {
            // SAFETY: the promise of `evaluate_tensors`.
            move |axis| unsafe { of.add(axis).read_unaligned() }
        };
        let shape: PerAxis = (0..axes).map(number(tensor.shape)).collect();
        let bytes = element.bytes() as i64;
        let strides = match tensor.strides.is_null() {
            true => c_order(&shape, element.bytes(), &mut [0; MAX_RANK]).iter().copied().collect(),
            false => {
                (0..axes).map(number(tensor.strides)).map(|n| n.saturating_mul(bytes)).collect()
            }
        };
        let data = tensor.data.wrapping_byte_add(tensor.byte_offset as usize);
        Ok(Some(Elements { argument, device_type, data, shape, strides }))
    }
}

/// The code of a type in DLPack: kDLInt, kDLUInt, kDLFloat, kDLBfloat or kDLBool.
fn type_code(element: Element) -> u8 {
    match element {
        Element::I8 | Element::I16 | Element::I32 | Element::I64 => 0,
        Element::U8 | Element::U16 | Element::U32 | Element::U64 => 1,
        Element::F16 | Element::F32 | Element::F64 => 2,
        Element::Bf16 => 4,
        Element::Bool => 6,
    }
}

impl Elements {
    /// Broadcasts a shape with the tensor's shape, as NumPy does it.
    fn widen(&self, common: &mut PerAxis) -> Result<(), Error> {
        while common.len() < self.shape.len() {
            common.insert(0, 1);
        }
        let first = common.len() - self.shape.len();
        for (axis, &length) in self.shape.iter().enumerate() {
            let wanted = common[first + axis];
            if wanted == 1 {
                common[first + axis] = length;
            } else if length != 1 && length != wanted {
                return Err(self.unlike(axis, wanted));
            }
        }
        Ok(())
    }

    /// The strides of an input along the axes of a call: 0 where it is broadcast.
    fn broadcast(&self, shape: &[i64]) -> Result<PerAxis, Error> {
        let (ndim, wanted) = (self.shape.len() as i32, shape.len());
        let first = wanted.checked_sub(self.shape.len());
        let first = first.ok_or(Error::TensorAxes { argument: self.argument, ndim, wanted })?;
        let mut strides: PerAxis = (0..first).map(|_| 0).collect();
        for (axis, (&length, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            let wanted = shape[first + axis];
            if length != wanted && length != 1 {
                return Err(self.unlike(axis, wanted));
            }
            strides.push(if length == wanted { stride } else { 0 });
        }
        Ok(strides)
    }

    /// The strides of an output along the axes of a call. The output has either all axes, with length 1 where they are
    /// reduced, or only the axes that are not reduced.
    fn of_result(&self, shape: &[i64], reduced_axes: u64) -> Result<PerAxis, Error> {
        let is_kept = |axis: usize| reduced_axes >> axis & 1 == 0;
        let (ndim, wanted) =
            (self.shape.len(), (0..shape.len()).filter(|axis| is_kept(*axis)).count());
        if ndim != shape.len() && ndim != wanted {
            let ndim = ndim as i32;
            return Err(Error::TensorAxes { argument: self.argument, ndim, wanted });
        }
        let mut own = 0;
        let stride = |(axis, &length): (usize, &i64)| {
            if !is_kept(axis) && ndim != shape.len() {
                return Ok(0);
            }
            let wanted = if is_kept(axis) { length } else { 1 };
            if self.shape[own] != wanted {
                return Err(self.unlike(own, wanted));
            }
            own += 1;
            Ok(self.strides[own - 1])
        };
        shape.iter().enumerate().map(stride).collect()
    }

    /// Fails unless the tensor is a single element that the host can read.
    fn check_scalar(&self) -> Result<(), Error> {
        let Elements { argument, device_type, .. } = *self;
        if device_type == CUDA {
            return Err(Error::TensorDevice { argument, device_type });
        }
        match self.shape.iter().position(|length| *length != 1) {
            Some(axis) => Err(self.unlike(axis, 1)),
            None => Ok(()),
        }
    }

    fn unlike(&self, axis: usize, wanted: i64) -> Error {
        Error::TensorShape { argument: self.argument, axis, length: self.shape[axis], wanted }
    }
}
