//! Every error, by its values and its text.

use crate::calls::{Array, Call};
use gpuvec_axes::{Error, Name};
use std::slice::from_ref;

const A: usize = 1 << 20;
const OUT: usize = 1 << 30;

fn c_order(address: usize) -> Array {
    Array { address, element_bytes: 4, strides: None }
}

/// The error of a call on an input and an output, if it is refused.
fn error(shape: &[i64], input: &Array, output: &Array) -> Option<Error> {
    Call::map(shape, from_ref(input), from_ref(output)).axes().err()
}

fn error_of_shape(shape: &[i64]) -> Option<Error> {
    error(shape, &c_order(A), &c_order(OUT))
}

#[test]
fn shapes_that_are_none_are_refused() {
    assert_eq!(error_of_shape(&[1; 33]), Some(Error::TooManyAxes { axes: 33 }));
    let negative = Error::NegativeLength { axis: 1, length: -2 };
    assert_eq!(error_of_shape(&[3, -2, 0]), Some(negative));
    assert_eq!(negative.to_string(), "shape[1] is -2: pass a length of 0 or more");
    for shape in [&[1 << 32, 1 << 31][..], &[i64::MAX, 2], &[i64::MAX, i64::MAX, i64::MAX]] {
        assert_eq!(error_of_shape(shape), Some(Error::TooManyElements));
    }
    assert_eq!(error_of_shape(&[i64::MAX, i64::MAX, 0]), None);
}

#[test]
fn too_many_elements_are_refused_also_where_most_of_them_are_reduced() {
    let zeros = Array::new(A, 4, &[0, 0]);
    let call =
        |shape: [i64; 2], axes| Call::reduce(&shape, axes, from_ref(&zeros), &[c_order(OUT)]);
    assert_eq!(call([1 << 32, 1 << 31], 1).axes().err(), Some(Error::TooManyElements));
    assert_eq!(call([1 << 32, 1 << 30], 1).axes().err(), None);
    assert_eq!(call([1 << 32, 1 << 30], 3).axes().err(), None);
}

#[test]
fn reduced_axes_that_the_shape_does_not_have_are_refused() {
    let call = Call::reduce(&[3, 4], 6, &[c_order(A)], &[c_order(OUT)]);
    let error = Error::NoSuchAxis { mask: 6, axes: 2 };
    assert_eq!(call.axes().err(), Some(error));
    assert_eq!(error.to_string(), "reduced_axes is 0x6, and ndim is 2: set only the lowest 2 bits");
    let call = Call::reduce(&[], 1, &[c_order(A)], &[c_order(OUT)]);
    assert_eq!(call.axes().err(), Some(Error::NoSuchAxis { mask: 1, axes: 0 }));
}

#[test]
fn null_arrays_with_elements_are_refused() {
    let null = Error::Null { array: Name::Input(0), elements: 12 };
    assert_eq!(error(&[3, 4], &c_order(0), &c_order(OUT)), Some(null));
    let text = "inputs[0] is NULL, but it has 12 elements: pass an array of that shape";
    assert_eq!(null.to_string(), text);
    let call = Call::reduce(&[3, 4], 2, &[c_order(A)], &[c_order(0)]);
    assert_eq!(call.axes().err(), Some(Error::Null { array: Name::Output(0), elements: 3 }));
}

#[test]
fn misaligned_addresses_and_strides_are_refused() {
    let error_of = |array: &Array| error(&[3, 4], array, &c_order(OUT));
    let expected = Error::Misaligned { array: Name::Input(0), address: A + 2, alignment: 4 };
    assert_eq!(error_of(&c_order(A + 2)), Some(expected));
    let text = "inputs[0] is 0x100002, which is not a multiple of 4, its element size: pass an aligned array";
    assert_eq!(expected.to_string(), text);
    let output = Array::new(OUT, 4, &[22, 4]);
    let expected =
        Error::MisalignedStride { array: Name::Output(0), axis: 0, stride: 22, alignment: 4 };
    assert_eq!(error(&[3, 4], &c_order(A), &output), Some(expected));
    let text = "outputs[0] has strides[0] of 22 bytes, which is not a multiple of 4, its element size: pass an \
                aligned array";
    assert_eq!(expected.to_string(), text);
}

#[test]
fn arrays_that_leave_the_address_space_are_refused() {
    let outside = |array: &Array, shape: &[i64]| {
        error(shape, array, &c_order(OUT))
            == Some(Error::OutsideMemory { array: Name::Input(0), address: array.address })
    };
    assert!(outside(&c_order(usize::MAX - 43), &[3, 4]));
    assert_eq!(error(&[3, 4], &c_order(usize::MAX - 47 - 4), &c_order(OUT)), None);
    assert!(outside(&Array::new(40, 4, &[-16, -4]), &[3, 4]));
    assert_eq!(error(&[3, 4], &Array::new(44, 4, &[-16, -4]), &c_order(OUT)), None);
    assert!(outside(&Array::new(A, 4, &[i64::MAX - 3, 4]), &[3, 4]));
    assert!(outside(&Array::new(A, 4, &[1 << 62, 1 << 62]), &[2, 3]));
    assert!(outside(&Array::new(1 << 63, 4, &[1 << 62, -(1 << 62)]), &[2, 2]));
    assert!(outside(&Array::new(1 << 63, 4, &[i64::MIN, 0]), &[3, 1]));
}

#[test]
fn outputs_with_one_element_for_several_results_are_refused() {
    let expected = Error::BroadcastOutput { output: 0, axis: 1, length: 4 };
    assert_eq!(error(&[3, 4], &c_order(A), &Array::new(OUT, 4, &[4, 0])), Some(expected));
    let text = "outputs[0] has strides[1] of 0, but shape[1] is 4: pass an output with an element for each result";
    assert_eq!(expected.to_string(), text);
    assert_eq!(error(&[3, 1], &c_order(A), &Array::new(OUT, 4, &[4, 0])), None);
}

#[test]
fn outputs_that_overlap_themselves_are_refused() {
    let expected = Error::OverlapsItself { output: 0 };
    for strides in [[4, 4], [8, 4], [12, -4]] {
        assert_eq!(error(&[3, 4], &c_order(A), &Array::new(OUT, 4, &strides)), Some(expected));
    }
    assert_eq!(error(&[3, 4], &c_order(A), &Array::new(OUT, 4, &[4, 12])), None);
    assert_eq!(error(&[2, 3], &c_order(A), &Array::new(OUT, 4, &[12, 4])), None);
}

#[test]
fn overlaps_name_both_arrays() {
    let [a, b, c] = [A, A + 400, A + 40].map(c_order);
    let call = Call::map(&[100], from_ref(&b), &[a.clone(), c.clone()]);
    let expected = Error::OutputsOverlap { output: 1, other: 0 };
    assert_eq!(call.axes().err(), Some(expected));
    assert_eq!(
        expected.to_string(),
        "outputs[1] overlaps outputs[0]: pass outputs that do not overlap"
    );
    let call = Call::map(&[100], &[b, a], &[c]);
    assert_eq!(call.axes().err(), Some(Error::Overlap { output: 0, input: 0 }));
    let text = "outputs[0] partly overlaps inputs[0]: pass the same array (in place) or arrays that do not overlap";
    assert_eq!(call.axes().err().map(|error| error.to_string()), Some(text.to_owned()));
}

#[test]
fn more_axes_than_eight_are_refused_after_merging() {
    // Rows of 3 in every second place: no axis follows another one.
    let shape = [2; 9];
    let mut strides = [0; 9];
    let mut stride = 4;
    for place in strides.iter_mut().rev() {
        *place = stride;
        stride *= 3;
    }
    let gaps = Array::new(A, 4, &strides);
    let expected = Error::TooManyMergedAxes { axes: 9 };
    assert_eq!(error(&shape, &gaps, &c_order(OUT)), Some(expected));
    assert_eq!(error(&shape[1..], &Array::new(A, 4, &strides[1..]), &c_order(OUT)), None);
    let call = Call::reduce(&shape, 0b1_1100_0000, &[gaps], &[c_order(OUT)]);
    assert_eq!(call.axes().err(), Some(expected));
}
