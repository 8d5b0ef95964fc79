//! Raw pointers become operands here: nothing past this file sees an unchecked argument.

use crate::cuda::{driver, pointer};
use crate::error::Error;
use crate::op::{Elementwise, Reduction};
use crate::operand::{Call, Operand, Residence};
use crate::settings::Placement;

/// Checks `out[i] = op(a[i], b[i])` over `n` elements; `None` if there is nothing to do.
pub(crate) fn elementwise<O: Elementwise>(
    placement: Placement,
    a: *const O::Element,
    b: *const O::Element,
    out: *mut O::Element,
    n: usize,
) -> Result<Option<Call>, Error> {
    if n == 0 {
        return Ok(None);
    }
    let inputs = [array("a", a, n)?, array("b", b, n)?];
    let output = array("out", out.cast_const(), n)?;
    call(placement, Call { op: O::OP, n, inputs, output }).map(Some)
}

/// Checks a reduction of `n` elements of `a` and `b` into `out[0]`; `n` is not 0.
pub(crate) fn reduction<O: Reduction>(
    placement: Placement,
    a: *const O::Element,
    b: *const O::Element,
    out: *mut O::Element,
    n: usize,
) -> Result<Call, Error> {
    let inputs = [array("a", a, n)?, array("b", b, n)?];
    let output = result(out)?;
    call(placement, Call { op: O::OP, n, inputs, output })
}

/// Checks where a reduction of nothing puts its zero; `None` if nowhere.
pub(crate) fn empty_reduction<T>(
    placement: Placement,
    out: *mut T,
) -> Result<Option<Operand>, Error> {
    if out.is_null() {
        return Ok(None);
    }
    located(placement, result(out)?).map(Some)
}

fn call(placement: Placement, mut call: Call) -> Result<Call, Error> {
    let output = call.output;
    for input in &call.inputs {
        let in_place = input.address == output.address;
        if overlap(input, &output) && !in_place {
            return Err(Error::Overlap { output: output.name, input: input.name });
        }
    }
    for operand in call.inputs.iter_mut().chain([&mut call.output]) {
        *operand = located(placement, *operand)?;
    }
    Ok(call)
}

fn result<T>(out: *mut T) -> Result<Operand, Error> {
    if out.is_null() {
        return Err(Error::NullResult { argument: "out" });
    }
    array("out", out.cast_const(), 1)
}

fn array<T>(name: &'static str, pointer: *const T, n: usize) -> Result<Operand, Error> {
    let element_bytes = size_of::<T>();
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

/// Asks the driver what memory the array is in. Where the driver is not in use, no pointer can be
/// a device's.
fn located(placement: Placement, operand: Operand) -> Result<Operand, Error> {
    let residence = match driver::for_placement(placement) {
        Some(driver) => pointer::locate(driver, &operand)?,
        None => Residence::Pageable,
    };
    if placement == Placement::Cpu && matches!(residence, Residence::Device { .. }) {
        return Err(Error::DeviceMemoryOnCpu { argument: operand.name });
    }
    Ok(Operand { residence, ..operand })
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

    fn add(a: usize, b: usize, out: usize, n: usize) -> Result<Option<Call>, Error> {
        elementwise::<AddF32>(Placement::Cpu, at(a), at(b), at(out), n)
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
        assert!(matches!(add(0, 0, 0, 0), Ok(None)));
        let empty = |out| empty_reduction(Placement::Cpu, at(out));
        assert!(matches!(empty(0), Ok(None)));
        assert!(matches!(empty(0x1000), Ok(Some(_))));
        assert!(matches!(empty(0x1001), Err(Error::Misaligned { .. })));
    }

    #[test]
    fn a_result_inside_an_input_is_refused_unless_it_is_its_first_element() {
        let dot = |out| reduction::<DotF32>(Placement::Cpu, at(0x1000), at(0x2000), at(out), 8);
        assert!(dot(0x1000).is_ok());
        assert!(matches!(dot(0x1004), Err(Error::Overlap { .. })));
        assert!(matches!(dot(0x201C), Err(Error::Overlap { .. })));
        assert!(dot(0x2020).is_ok());
        assert!(matches!(dot(0), Err(Error::NullResult { .. })));
    }
}
