//! One call of an expression on arrays of any strides, as such or as tensors: its possible errors and its results.

use crate::formulas::{Formula, bytes_of};
use crate::views::{Layout, Lengths, MOST, View, count, count_along, kept, results};
use crate::{Arena, Wrong, gpu_is_missing};
use gpuvec::abi::expr::{gpuvec_expr_run_dlpack, gpuvec_expr_run_nd};
use gpuvec::gpuvec_array;
use gpuvec::gpuvec_status::{self, *};
use gpuvec::gpuvec_type::{self, *};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr::{null, null_mut, with_exposed_provenance_mut, without_provenance_mut};

#[derive(Arbitrary, Debug)]
pub struct Evaluation {
    formula: Formula,
    lengths: Lengths,
    reduced: u8,
    inputs: [Layout; 2],
    outputs: [Layout; 2],
    form: Form,
    wrong: Wrong,
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
enum Form {
    Arrays,
    Tensors,
}

/// A `DLTensor`, as dlpack.h defines it.
#[repr(C)]
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

/// The arguments of a call, and what the model says of them.
struct Call<'a> {
    formula: Formula,
    shape: &'a [i64],
    reduced: u64,
    inputs: &'a [View],
    outputs: &'a [View],
}

/// The status that the model expects: one of the errors; without any, success or one of `possible`.
#[derive(Default)]
pub struct Expected {
    pub errors: Vec<gpuvec_status>,
    pub possible: Vec<gpuvec_status>,
}

impl Expected {
    /// Fails unless the status is expected.
    pub fn check(&self, status: i32, is_there: bool, what: &dyn std::fmt::Debug) {
        let is_of = |statuses: &[gpuvec_status]| statuses.iter().any(|each| *each as i32 == status);
        let fits = match (self.errors.is_empty(), is_there) {
            (true, _) => status == 0 || is_of(&self.possible),
            // Any of the reasons why the memory is not there may be found first.
            (false, false) => status != 0,
            (false, true) => is_of(&self.errors) || is_of(&self.possible),
        };
        let Expected { errors, possible } = self;
        assert!(
            fits,
            "{status}, not of {errors:?} {possible:?}: {}: {what:?}",
            crate::last_error()
        );
        assert_eq!(crate::last_error().is_empty(), status == 0, "{what:?}");
    }
}

pub fn perform(arena: &mut Arena, step: &Evaluation) {
    let formula = step.formula;
    let shape = step.lengths.shape();
    let has_bits = formula.is_reduction() || step.reduced == 255;
    let axes = if step.wrong == Wrong::Axes { 64 } else { shape.len() as u32 };
    let all = 1_u64.checked_shl(axes).unwrap_or(0).wrapping_sub(1);
    let reduced = if has_bits { u64::from(step.reduced) * 0x0101_0101_0101_0101 & all } else { 0 };
    let mut views: Vec<View> = Vec::new();
    for (layout, ty) in step.inputs.iter().zip(formula.inputs()) {
        let view = View::new(layout, bytes_of(ty), &shape, arena.address(), &views);
        views.push(view);
    }
    let result_shape = kept(&shape, reduced);
    for (layout, ty) in step.outputs.iter().zip(formula.outputs()) {
        let view = View::new(layout, bytes_of(*ty), &result_shape, arena.address(), &views);
        views.push(view);
    }
    let (inputs, outputs) = views.split_at(2);
    let call = Call { formula, shape: &shape, reduced, inputs, outputs };
    let is_small = |elements: Option<i64>| elements.is_some_and(|elements| elements <= MOST as i64);
    let elements = count_along(&shape, reduced);
    if elements.is_none() || is_small(elements) && is_small(count(&result_shape)) {
        call.perform(arena, step);
    }
}

impl Call<'_> {
    fn perform(&self, arena: &mut Arena, step: &Evaluation) {
        let form = if self.can_be_tensors() { step.form } else { Form::Arrays };
        let mut expected = self.expected();
        expected.errors.extend(step.wrong.error(form == Form::Tensors, self.shape.len()));
        let is_there = self.is_there(arena);
        if expected.errors.is_empty() && !is_there {
            return;
        }
        let status = match form {
            Form::Arrays => self.run(step.wrong),
            Form::Tensors => self.run_tensors(step.wrong),
        };
        expected.check(status, is_there, &(step, arena.address(), form));
        if status == 0 {
            self.store(arena);
        }
    }

    /// The errors of the call, if its pointers and tensors are right.
    fn expected(&self) -> Expected {
        let mut expected = Expected::default();
        let elements = count_along(self.shape, self.reduced).filter(|_| self.shape.len() <= 32);
        let Some(elements) = elements else {
            expected.errors.extend([GPUVEC_ERROR_VALUE, GPUVEC_ERROR_SIZE]);
            return expected;
        };
        let results = count(&kept(self.shape, self.reduced)).unwrap_or(0);
        if self.shape.len() < 64 && self.reduced >> self.shape.len() != 0 {
            expected.errors.push(GPUVEC_ERROR_VALUE);
            return expected;
        }
        let of_inputs = self.used().flat_map(|input| wrong(input, self.shape, 0));
        let of_outputs =
            self.outputs.iter().flat_map(|output| wrong(output, self.shape, self.reduced));
        // Arrays without elements may be anything.
        match elements {
            0 => expected.possible.extend(of_inputs),
            _ => expected.errors.extend(of_inputs),
        }
        let mut also: Vec<_> = of_outputs.collect();
        if !self.formula.is_reduction() && self.reduced != 0 {
            also.push(GPUVEC_ERROR_VALUE);
        }
        if elements > 0 && gpu_is_missing() {
            also.push(GPUVEC_ERROR_NO_GPU);
        }
        if elements == 0 && self.formula.needs_elements() {
            also.push(GPUVEC_ERROR_EMPTY);
        }
        match results {
            0 => expected.possible.extend(also),
            _ => expected.errors.extend(also),
        }
        if self.shape.iter().filter(|length| **length > 1).count() > 8 {
            expected.possible.push(GPUVEC_ERROR_VALUE);
        }
        if expected.errors.is_empty() && results > 0 && elements > 0 {
            self.overlaps(&mut expected);
        } else {
            expected.possible.push(GPUVEC_ERROR_OVERLAP);
        }
        expected
    }

    /// Adds the error of arrays that overlap: a certain one if they share bytes; a possible one if it may not be
    /// found out that they do not.
    fn overlaps(&self, expected: &mut Expected) {
        let of_output = |output: &View| output.bytes(self.shape, self.reduced);
        let mut written = HashSet::new();
        let mut shares_bytes = false;
        for output in self.outputs {
            shares_bytes |= of_output(output).into_iter().any(|byte| !written.insert(byte));
        }
        let mut is_close =
            !self.outputs.iter().all(|view| view.is_nested(self.shape, self.reduced));
        is_close |= self.outputs.len() > 1
            && meet(&of_output(&self.outputs[0]), &of_output(&self.outputs[1]));
        for (input, output) in
            self.used().flat_map(|input| self.outputs.iter().map(move |output| (input, output)))
        {
            if self.are_same(input, output) {
                continue;
            }
            let (read, own) = (input.bytes(self.shape, 0), of_output(output));
            // The result of all elements may be where the first one is.
            let may_be_first = self.formula.is_reduction() && input.size == output.size;
            let own_bytes: HashSet<&usize> = own.iter().collect();
            shares_bytes |= !may_be_first && read.iter().any(|byte| own_bytes.contains(byte));
            is_close |= meet(&read, &own);
        }
        expected.errors.extend(shares_bytes.then_some(GPUVEC_ERROR_OVERLAP));
        expected.possible.extend(is_close.then_some(GPUVEC_ERROR_OVERLAP));
    }

    /// Returns whether an output is exactly an input.
    fn are_same(&self, input: &View, output: &View) -> bool {
        let strides = (input.along(self.shape, 0), output.along(self.shape, self.reduced));
        let differs = |axis: usize| self.shape[axis] > 1 && strides.0[axis] != strides.1[axis];
        (input.address, input.size) == (output.address, output.size)
            && !(0..self.shape.len()).any(differs)
    }

    fn used(&self) -> impl Iterator<Item = &View> {
        self.inputs.iter().enumerate().filter(|(i, _)| self.formula.uses(*i)).map(|(_, view)| view)
    }

    /// Returns whether all elements are in the arena.
    fn is_there(&self, arena: &Arena) -> bool {
        count_along(self.shape, self.reduced).is_some_and(|_| self.shape.len() <= 32)
            && self.used().all(|input| arena.holds(input, self.shape, 0))
            && self.outputs.iter().all(|output| arena.holds(output, self.shape, self.reduced))
    }

    fn store(&self, arena: &mut Arena) {
        let results_of = results(self.shape, self.reduced);
        let bits = |input: &View| -> Vec<u64> {
            let elements = input.elements(self.shape, 0);
            elements.into_iter().map(|address| arena.bits(address, input.size)).collect()
        };
        let unused = || vec![0; results_of.len()];
        let a = bits(&self.inputs[0]);
        let b = if self.formula.uses(1) { bits(&self.inputs[1]) } else { unused() };
        let places: Vec<_> =
            self.outputs.iter().map(|output| output.elements(self.shape, self.reduced)).collect();
        let mut groups = vec![Vec::new(); places[0].len()];
        for (index, result) in results_of.iter().enumerate() {
            groups[*result].push((a[index], b[index]));
        }
        for (result, group) in groups.iter().enumerate() {
            for (number, bits) in self.formula.of(group).into_iter().enumerate() {
                arena.expect(places[number][result], bits, self.outputs[number].size);
            }
        }
    }

    fn run(&self, wrong: Wrong) -> i32 {
        let array = |view: &View| gpuvec_array {
            data: with_exposed_provenance_mut(view.address),
            strides: view.strides.as_ref().map_or(null(), |strides| strides.as_ptr()),
        };
        let inputs: Vec<_> = self.inputs.iter().map(array).collect();
        let outputs: Vec<_> = self.outputs.iter().map(array).collect();
        let unless = |is_null, pointer| if is_null { null() } else { pointer };
        let ndim = if wrong == Wrong::Ndim { -1 } else { self.shape.len() as i32 };
        let expr = if wrong == Wrong::Handle { no_handle() } else { self.formula.expr() };
        // SAFETY: all arrays are in the arena, or the library refuses the call.
        unsafe {
            gpuvec_expr_run_nd(
                expr,
                ndim,
                if wrong == Wrong::Shape && ndim > 0 { null() } else { self.shape.as_ptr() },
                inputs.as_ptr(),
                unless(wrong == Wrong::Outputs, outputs.as_ptr()),
                self.reduced,
                null_mut(),
            )
        }
    }

    /// Returns whether strides are whole elements, as those of tensors are.
    fn can_be_tensors(&self) -> bool {
        let views = self.inputs.iter().chain(self.outputs);
        let mut strides = views
            .flat_map(|view| view.strides.iter().flatten().map(|stride| stride % view.size as i64));
        strides.all(|rest| rest == 0) && self.shape.len() <= 64
    }

    fn run_tensors(&self, wrong: Wrong) -> i32 {
        let is_kept = |axis: &usize| self.reduced.unbounded_shr(*axis as u32) & 1 == 0;
        let kept: Vec<usize> = (0..self.shape.len()).filter(is_kept).collect();
        let all: Vec<usize> = (0..self.shape.len()).collect();
        let inputs = self.inputs.iter().zip(self.formula.inputs()).map(|each| (each, &all));
        let outputs = self.outputs.iter().zip(self.formula.outputs().iter().copied());
        let views = inputs.chain(outputs.map(|each| (each, &kept)));
        // Owned here, for as long as the tensors point there.
        let numbers: Vec<_> = views
            .map(|((view, ty), axes)| {
                let of_axes = |all: &[i64]| axes.iter().map(|axis| all[*axis]).collect::<Vec<_>>();
                let strides = view.strides.as_ref().map(|strides| {
                    of_axes(&strides.iter().map(|s| s / view.size as i64).collect::<Vec<_>>())
                });
                (view, ty, of_axes(self.shape), strides)
            })
            .collect();
        let tensor =
            |(view, ty, shape, strides): &(&View, gpuvec_type, Vec<i64>, Option<Vec<i64>>)| {
                Tensor {
                    data: with_exposed_provenance_mut(view.address.wrapping_sub(24)),
                    device_type: if wrong == Wrong::Device { 9 } else { 1 },
                    device_id: 0,
                    ndim: if wrong == Wrong::Ndim { 33 } else { shape.len() as i32 },
                    code: if wrong == Wrong::Type { 5 } else { code_of(*ty) },
                    bits: 8 * bytes_of(*ty) as u8,
                    lanes: 1,
                    shape: shape.as_ptr(),
                    strides: strides.as_ref().map_or(null(), |strides| strides.as_ptr()),
                    byte_offset: 24,
                }
            };
        let tensors: Vec<Tensor> = numbers.iter().map(tensor).collect();
        let mut pointers: Vec<*const c_void> =
            tensors.iter().map(|tensor| std::ptr::from_ref(tensor).cast()).collect();
        if !self.formula.uses(1) {
            pointers[1] = null();
        }
        if wrong == Wrong::Shape {
            pointers[0] = null();
        }
        let outputs = if wrong == Wrong::Outputs { null() } else { pointers[2..].as_ptr() };
        let expr = if wrong == Wrong::Handle { no_handle() } else { self.formula.expr() };
        // SAFETY: all arrays are in the arena, or the library refuses the call.
        unsafe {
            gpuvec_expr_run_dlpack(expr, pointers.as_ptr(), outputs, self.reduced, null_mut())
        }
    }
}

/// A number that is not a handle.
fn no_handle<T>() -> *mut T {
    without_provenance_mut(0x1234)
}

fn code_of(ty: gpuvec_type) -> u8 {
    match ty {
        GPUVEC_I32 | GPUVEC_I64 => 0,
        GPUVEC_U8 => 1,
        GPUVEC_BOOL => 6,
        _ => 2,
    }
}

/// Returns whether the ranges of two sets of bytes meet.
fn meet(x: &[usize], y: &[usize]) -> bool {
    let range = |bytes: &[usize]| (bytes.iter().min().copied(), bytes.iter().max().copied());
    let ((first, last), (other_first, other_last)) = (range(x), range(y));
    first <= other_last && other_first <= last
}

/// The errors of an array's address and strides alone.
pub fn wrong(view: &View, shape: &[i64], reduced: u64) -> Vec<gpuvec_status> {
    let null = (view.address == 0).then_some(GPUVEC_ERROR_NULL);
    let misaligned = (!view.is_aligned(shape, reduced)).then_some(GPUVEC_ERROR_MISALIGNED);
    null.into_iter().chain(misaligned).collect()
}
