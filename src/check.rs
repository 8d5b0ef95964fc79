//! Raw pointers become operands here: nothing past this file sees an unchecked argument.

use crate::cuda::driver::{self, Driver};
use crate::cuda::pointer;
use crate::error::Error;
use crate::op::{Elementwise, Operation, Reduction, Shape};
use crate::operand::{Call, Operand, Residence, Task};
use crate::registered;
use crate::settings::Placement;
use std::ffi::c_void;

/// Checks `out[i] = op(a[i], b[i])` over `n` elements; `n` is not 0.
pub(crate) fn elementwise<O: Elementwise>(
    op: O,
    placement: Placement,
    inputs: Inputs<O>,
    out: *mut O::Element,
    n: usize,
) -> Result<Call, Error> {
    operation(task(op), placement, inputs.map(untyped), out.cast(), n)
}

/// Checks a reduction of `n` elements of each input into `out[0]`; `n` is not 0.
pub(crate) fn reduction<O: Reduction>(
    op: O,
    placement: Placement,
    inputs: Inputs<O>,
    out: *mut O::Output,
    n: usize,
) -> Result<Call, Error> {
    operation(task(op), placement, inputs.map(untyped), out.cast(), n)
}

fn task<O: Operation>(op: O) -> Task {
    Task::Compute(O::OP, op.alpha())
}

fn untyped<T>(input: Option<*const T>) -> Option<*const c_void> {
    input.map(<*const T>::cast)
}

/// What the two have in common, once for all types.
fn operation(
    task: Task,
    placement: Placement,
    [a, b]: [Option<*const c_void>; 2],
    out: *mut c_void,
    n: usize,
) -> Result<Call, Error> {
    let input = |name, input: Option<_>| {
        input.map(|input| array(name, input, n, task.element_bytes())).transpose()
    };
    let inputs = [input("a", a)?, input("b", b)?];
    let output = match task.shape() {
        Shape::Elementwise => array("out", out, n, task.element_bytes())?,
        Shape::Reduction => result(out, task.output_bytes())?,
    };
    let mut call = Call { task, n, inputs, output };
    locate(placement, &mut call)?;
    Ok(call)
}

/// Checks a copy of bytes; `None` if there is nothing to do. Where the work is done follows from
/// the pointers: with placement `cpu` as well a device's memory is reached.
pub(crate) fn copy(
    placement: Placement,
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
) -> Result<Option<Call>, Error> {
    if bytes == 0 {
        return Ok(None);
    }
    let input = array("src", src, bytes, 1)?;
    let output = array("dst", dst, bytes, 1)?;
    if input.address == output.address {
        return Ok(None);
    }
    let mut call = Call { task: Task::Copy, n: bytes, inputs: [Some(input), None], output };
    locate(placement, &mut call)?;
    Ok(Some(call))
}

/// The input arrays `a` and, if the operation has it, `b`.
pub(crate) type Inputs<O> = [Option<*const <O as Operation>::Element>; 2];

/// Checks where a reduction of nothing puts its zero; `None` if nowhere.
pub(crate) fn empty_reduction<T>(
    placement: Placement,
    out: *mut T,
) -> Result<Option<Operand>, Error> {
    if out.is_null() {
        return Ok(None);
    }
    let mut output = result(out.cast(), size_of::<T>())?;
    output.residence = Asked::new(placement).residence(&output)?;
    if placement == Placement::Cpu && output.device().is_some() {
        return Err(Error::DeviceMemoryOnCpu { argument: output.name });
    }
    Ok(Some(output))
}

/// Checks a call's arrays against one another, and finds out what memory they are in.
fn locate(placement: Placement, call: &mut Call) -> Result<(), Error> {
    let (task, output) = (call.task, &mut call.output);
    for input in call.inputs.iter().flatten() {
        let in_place = input.address == output.address && task.may_be_in_place();
        if overlap(input, output) && !in_place {
            return Err(Error::Overlap { output: output.name, input: input.name });
        }
    }
    let asked = Asked::new(placement);
    for operand in call.inputs.iter_mut().flatten().chain([output]) {
        operand.residence = asked.residence(operand)?;
        if placement == Placement::Cpu && operand.device().is_some() && task != Task::Copy {
            return Err(Error::DeviceMemoryOnCpu { argument: operand.name });
        }
    }
    Ok(())
}

fn result(out: *mut c_void, bytes: usize) -> Result<Operand, Error> {
    if out.is_null() {
        return Err(Error::NullResult { argument: "out" });
    }
    array("out", out, 1, bytes)
}

/// An array of `n` elements, aligned as one of them.
fn array(
    name: &'static str,
    pointer: *const c_void,
    n: usize,
    element_bytes: usize,
) -> Result<Operand, Error> {
    let bytes = n
        .checked_mul(element_bytes)
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or(Error::TooLong { n, element_bytes })?;
    if pointer.is_null() {
        return Err(Error::Null { argument: name, n });
    }
    let address = pointer.expose_provenance();
    if !address.is_multiple_of(element_bytes) {
        return Err(Error::Misaligned { argument: name, address, alignment: element_bytes });
    }
    if address.checked_add(bytes).is_none() {
        return Err(Error::TooLong { n, element_bytes });
    }
    Ok(Operand { name, address, bytes, residence: Residence::Pageable })
}

fn overlap(x: &Operand, y: &Operand) -> bool {
    x.address < y.address + y.bytes && y.address < x.address + x.bytes
}

/// The driver that is asked what memory the arrays of one call are in.
struct Asked {
    placement: Placement,
    driver: Result<Driver, Error>,
    /// Whether an array may be a device's although there is no driver to ask.
    may_be_device: bool,
}

impl Asked {
    fn new(placement: Placement) -> Self {
        let driver = driver::for_placement(placement);
        let may_be_device = driver.is_err() && driver::may_serve_others();
        Asked { placement, driver, may_be_device }
    }

    /// The memory that an array is in. Without a driver to ask, the host must reach the array.
    fn residence(&self, operand: &Operand) -> Result<Residence, Error> {
        match self.driver {
            Ok(driver) => registered::residence(operand, || pointer::locate(driver, operand)),
            Err(_) if !self.may_be_device || pointer::ends_are_hosts(operand) => {
                Ok(Residence::Pageable)
            }
            Err(_) if self.placement == Placement::Cpu => {
                Err(Error::DeviceMemoryOnCpu { argument: operand.name })
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{AddF32, DotF32};
    use proptest::prelude::*;

    const ELEMENT: usize = size_of::<f32>();

    fn at(address: usize) -> *mut f32 {
        std::ptr::without_provenance_mut(address)
    }

    fn add(a: usize, b: usize, out: usize, n: usize) -> Result<Call, Error> {
        let inputs = [a, b].map(|address| Some(at(address).cast_const()));
        elementwise(AddF32, Placement::Cpu, inputs, at(out), n)
    }

    proptest! {
        #[test]
        fn partial_overlap_is_refused_and_nothing_else(
            a in 1usize..200, b in 1usize..200, out in 1usize..200, n in 1usize..60,
        ) {
            let shares = |input: usize| {
                let cells = |start: usize| start..start + n;
                input != out && cells(input).any(|cell| cells(out).contains(&cell))
            };
            let result = add(a * ELEMENT, b * ELEMENT, out * ELEMENT, n);
            if shares(a) || shares(b) {
                let refused = matches!(result, Err(Error::Overlap { .. }));
                prop_assert!(refused);
            } else {
                prop_assert!(result.is_ok());
            }
        }

        #[test]
        fn misaligned_pointers_are_refused(offset in 1usize..4, which in 0usize..3) {
            let mut addresses = [0x1000, 0x2000, 0x3000];
            addresses[which] += offset;
            let result = add(addresses[0], addresses[1], addresses[2], 8);
            let refused = matches!(result, Err(Error::Misaligned { alignment: ELEMENT, .. }));
            prop_assert!(refused);
        }

        #[test]
        fn sizes_past_the_address_space_are_refused(n in (isize::MAX as usize / ELEMENT + 1)..) {
            let result = add(0x1000, 0x2000, 0x3000, n);
            let refused = matches!(result, Err(Error::TooLong { .. }));
            prop_assert!(refused);
        }
    }

    #[test]
    fn an_array_may_not_wrap_around_the_address_space() {
        let top = usize::MAX - 4096 + 1;
        assert!(matches!(add(top, 0x1000, 0x4000, 1025), Err(Error::TooLong { .. })));
    }

    #[test]
    fn nothing_to_do_needs_no_arrays() {
        let empty = |out| empty_reduction(Placement::Cpu, at(out));
        assert!(matches!(empty(0), Ok(None)));
        assert!(matches!(empty(0x1000), Ok(Some(_))));
        assert!(matches!(empty(0x1001), Err(Error::Misaligned { .. })));
    }

    #[test]
    fn a_result_inside_an_input_is_refused_unless_it_is_its_first_element() {
        let inputs = [0x1000, 0x2000].map(|address| Some(at(address).cast_const()));
        let dot = |out| reduction(DotF32, Placement::Cpu, inputs, at(out), 8);
        assert!(dot(0x1000).is_ok());
        assert!(matches!(dot(0x1004), Err(Error::Overlap { .. })));
        assert!(matches!(dot(0x201C), Err(Error::Overlap { .. })));
        assert!(dot(0x2020).is_ok());
        assert!(matches!(dot(0), Err(Error::NullResult { .. })));
    }
}
