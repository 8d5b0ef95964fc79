//! Arrays that share memory are found, whatever their strides; those that do not are taken.

use crate::calls::{Array, Call, indexes};
use gpuvec_axes::Error;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::HashSet;

const BASE: usize = 1 << 20;

/// The addresses of all bytes of an array, and whether each of its elements has its own.
fn bytes(call: &Call, array: &Array, is_output: bool) -> (HashSet<usize>, bool) {
    let addresses = call.addresses(array, is_output);
    let bytes: HashSet<_> =
        addresses.iter().flat_map(|address| *address..*address + array.element_bytes).collect();
    let are_apart = bytes.len() == addresses.len() * array.element_bytes;
    (bytes, are_apart)
}

/// An array in a few hundred bytes of memory, with any strides.
fn arrays(rank: usize, may_broadcast: bool) -> impl Strategy<Value = Array> {
    let strides = prop::collection::vec(-12i64..13, rank);
    (0usize..120, 0u32..4, strides).prop_map(move |(place, log2_bytes, strides)| {
        let element_bytes = 1usize << log2_bytes;
        let nonzero = |stride: i64| if stride == 0 && !may_broadcast { 1 } else { stride };
        let strides: Vec<_> =
            strides.iter().map(|stride| nonzero(*stride) * element_bytes as i64).collect();
        Array::new(BASE + (place & !(element_bytes - 1)), element_bytes, &strides)
    })
}

/// Calls on two arrays, close to each other. Some inputs are the output.
fn calls(outputs: usize) -> impl Strategy<Value = Call> {
    let shape = prop::collection::vec(1i64..6, 1..4);
    (shape, prop_oneof![3 => Just(0u64), 1 => 0u64..8]).prop_flat_map(move |(shape, mask)| {
        let rank = shape.len();
        let arrays = (arrays(rank, outputs == 1), arrays(rank, false), prop::bool::weighted(0.1));
        arrays.prop_map(move |(first, output, is_in_place)| {
            let first = if is_in_place { output.clone() } else { first };
            let mask = mask & ((1 << rank) - 1);
            match outputs {
                1 => Call::reduce(&shape, mask, &[first], &[output]),
                _ => Call::reduce(&shape, mask, &[], &[first, output]),
            }
        })
    })
}

/// True if an output is exactly an input, or the one result that replaces its first element.
fn is_in_place(call: &Call) -> bool {
    let [input, output] = [&call.inputs[0], &call.outputs[0]];
    let is_element = (input.address, input.element_bytes) == (output.address, output.element_bytes);
    let strides = |array: &Array, axis| array.strides.as_ref().unwrap()[axis];
    let is_alike = |axis| match call.is_reduced(axis) {
        true => strides(input, axis) == 0,
        false => strides(input, axis) == strides(output, axis),
    };
    let mut axes = (0..call.shape.len()).filter(|axis| call.shape[*axis] > 1);
    is_element && (axes.all(is_alike) || call.lengths(false).iter().all(|length| *length == 1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_input_that_shares_memory_with_the_output_is_missed(call in calls(1)) {
        let (output, is_apart) = bytes(&call, &call.outputs[0], true);
        let (input, _) = bytes(&call, &call.inputs[0], false);
        let result = call.axes();
        if !is_apart {
            prop_assert_eq!(result, Err(Error::OverlapsItself { output: 0 }));
        } else if result != Err(Error::OverlapsItself { output: 0 }) {
            if is_in_place(&call) {
                prop_assert!(result.is_ok());
            } else if !input.is_disjoint(&output) {
                prop_assert_eq!(result, Err(Error::Overlap { output: 0, input: 0 }));
            }
        }
    }

    #[test]
    fn no_outputs_that_share_memory_are_missed(call in calls(2)) {
        let [(first, is_first_apart), (second, is_second_apart)] =
            [0, 1].map(|output| bytes(&call, &call.outputs[output], true));
        let are_apart = is_first_apart && is_second_apart && first.is_disjoint(&second);
        let is_refused = match call.axes() {
            Err(Error::OverlapsItself { .. } | Error::OutputsOverlap { .. }) => true,
            result => result.map(|_| false).unwrap(),
        };
        prop_assert!(is_refused || are_apart);
    }
}

/// Of random arrays with any strides that share no memory, few are refused.
#[test]
fn few_disjoint_arrays_are_refused() {
    let (mut runner, strategy) = (TestRunner::deterministic(), calls(1));
    let (mut disjoint, mut near, mut refused) = (0, 0, 0);
    for _ in 0..20_000 {
        let call = strategy.new_tree(&mut runner).expect("a call").current();
        let (output, is_apart) = bytes(&call, &call.outputs[0], true);
        let (input, _) = bytes(&call, &call.inputs[0], false);
        if is_apart && input.is_disjoint(&output) {
            let [a, b] = [&input, &output].map(|bytes| (bytes.iter().min(), bytes.iter().max()));
            disjoint += 1;
            near += usize::from(a.0 <= b.1 && b.0 <= a.1);
            refused += usize::from(matches!(call.axes(), Err(Error::Overlap { .. })));
        }
    }
    println!("{disjoint} disjoint pairs, {near} of them near each other: {refused} refused");
    assert!(near > 1000, "{near} pairs are near each other");
    assert!(refused * 3 < near, "{refused} of {near} pairs are refused");
}

/// A slice as NumPy's: indexes from `start` on, a signed step.
#[derive(Clone, Copy, Debug)]
struct Slice {
    start: usize,
    step: i64,
}

/// The part of an array in C order of records, of a field of the records.
fn part(
    lengths: &[usize], padding: usize, record: usize, field: (usize, usize), slices: &[Slice],
) -> Array {
    let (mut strides, mut stride, mut address) = (vec![0; lengths.len()], record, BASE + field.0);
    for axis in (0..lengths.len()).rev() {
        strides[axis] = stride as i64 * slices[axis].step;
        address += stride * slices[axis].start;
        stride = stride * lengths[axis] + padding * record;
    }
    Array::new(address, field.1, &strides)
}

/// A slice of `count` indexes below `length`.
fn slices(length: usize, count: usize) -> impl Strategy<Value = Slice> {
    let most = (length - 1) / (count - 1).max(1);
    (1..=most.max(1), any::<bool>(), any::<prop::sample::Index>()).prop_map(
        move |(step, is_flipped, at)| {
            let reach = step * (count - 1);
            let start = at.index(length - reach);
            match is_flipped {
                true => Slice { start: start + reach, step: -(step as i64) },
                false => Slice { start, step: step as i64 },
            }
        },
    )
}

/// Two slices of `count` indexes each, without a common index: halves, or interleaved.
fn apart(count: usize) -> impl Strategy<Value = (usize, [Slice; 2])> {
    (0usize..3, 1usize..4, 1usize..3, any::<[bool; 2]>()).prop_map(
        move |(gap, step, times, flips)| {
            let flipped = |slice: Slice, is_flipped: bool| match is_flipped {
                true => Slice {
                    start: slice.start + slice.step as usize * (count - 1),
                    step: -slice.step,
                },
                false => slice,
            };
            // Steps of 1 are halves.
            let (second, step_of_second) = match step {
                1 => (count + gap, 1),
                _ => (1 + gap % (step - 1).max(1), step * times),
            };
            let pair = [
                Slice { start: 0, step: step as i64 },
                Slice { start: second, step: step_of_second as i64 },
            ];
            let length = 1 + pair
                .map(|slice| slice.start + slice.step as usize * (count - 1))
                .into_iter()
                .max()
                .unwrap();
            (length, [flipped(pair[0], flips[0]), flipped(pair[1], flips[1])])
        },
    )
}

/// Parts of one array without a common element: fields of records, real and imaginary parts, blocks of columns,
/// halves and interleaved slices of any axis, with any slices of the other axes.
fn disjoint_parts() -> impl Strategy<Value = Call> {
    let shape = prop::collection::vec(1usize..5, 1..5);
    (shape, any::<prop::sample::Index>(), 0usize..3, any::<bool>()).prop_flat_map(
        |(counts, at, padding, are_fields)| {
            let axis = at.index(counts.len());
            let slice_pairs: Vec<_> = counts
                .iter()
                .map(|count| {
                    let count = *count;
                    (count..3 * count + 1).prop_flat_map(move |length| {
                        (Just(length), slices(length, count), slices(length, count))
                    })
                })
                .collect();
            (slice_pairs, apart(counts[axis])).prop_map(move |(pairs, (length, separate))| {
                let mut lengths: Vec<_> = pairs.iter().map(|pair| pair.0).collect();
                let mut slices = [
                    pairs.iter().map(|pair| pair.1).collect::<Vec<_>>(),
                    pairs.iter().map(|pair| pair.2).collect::<Vec<_>>(),
                ];
                let fields = if are_fields { [(0, 4), (8, 8)] } else { [(0, 8), (0, 8)] };
                if !are_fields {
                    lengths[axis] = length;
                    slices
                        .iter_mut()
                        .zip(separate)
                        .for_each(|(slices, separate)| slices[axis] = separate);
                }
                let record = if are_fields { 16 } else { 8 };
                let [input, output] = [0, 1]
                    .map(|number| part(&lengths, padding, record, fields[number], &slices[number]));
                let shape: Vec<_> = counts.iter().map(|count| *count as i64).collect();
                Call::map(&shape, &[input], &[output])
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn disjoint_parts_of_an_array_are_taken(call in disjoint_parts()) {
        let (input, _) = bytes(&call, &call.inputs[0], false);
        let (output, _) = bytes(&call, &call.outputs[0], true);
        prop_assert!(input.is_disjoint(&output), "the parts are not disjoint");
        prop_assert!(call.axes().is_ok());
    }
}

fn two(shape: &[i64], input: Array, output: Array) -> Result<(), Error> {
    Call::map(shape, &[input], &[output]).axes().map(|_| ())
}

#[test]
fn the_usual_disjoint_parts_are_taken() {
    // Fields of records, real and imaginary parts.
    assert_eq!(two(&[50], Array::new(BASE, 4, &[24]), Array::new(BASE + 4, 4, &[24])), Ok(()));
    assert_eq!(two(&[50], Array::new(BASE, 8, &[16]), Array::new(BASE + 8, 8, &[16])), Ok(()));
    assert_eq!(
        two(&[9, 50], Array::new(BASE, 4, &[400, 8]), Array::new(BASE + 4, 4, &[400, 8])),
        Ok(())
    );
    // Interleaved slices: forwards, backwards, with other steps.
    assert_eq!(
        two(&[50], Array::new(BASE, 8, &[16]), Array::new(BASE + 8 + 49 * 16, 8, &[-16])),
        Ok(())
    );
    assert_eq!(two(&[50], Array::new(BASE, 8, &[32]), Array::new(BASE + 8, 8, &[48])), Ok(()));
    // Blocks of columns, of matrices and of batches of them whose rows have padding.
    assert_eq!(
        two(&[9, 5], Array::new(BASE, 8, &[80, 8]), Array::new(BASE + 40, 8, &[80, 8])),
        Ok(())
    );
    let batch = [88 * 9 + 24, 88, 8];
    assert_eq!(
        two(&[4, 9, 5], Array::new(BASE, 8, &batch), Array::new(BASE + 40, 8, &batch)),
        Ok(())
    );
    // Odd and even rows; a diagonal and the next one; a row of each matrix and the next rows.
    assert_eq!(
        two(&[4, 10], Array::new(BASE, 8, &[160, 8]), Array::new(BASE + 80, 8, &[160, 8])),
        Ok(())
    );
    assert_eq!(two(&[9], Array::new(BASE, 8, &[88]), Array::new(BASE + 8, 8, &[88])), Ok(()));
    assert_eq!(
        two(&[4, 2, 5], Array::new(BASE, 8, &[400, 0, 8]), Array::new(BASE + 40, 8, &[400, 40, 8])),
        Ok(())
    );
}

#[test]
fn an_output_may_be_an_input_in_place_with_any_strides() {
    for strides in [[80, 8], [8, 80], [-80, 8], [160, 16]] {
        let array = Array::new(BASE + 8000, 8, &strides);
        assert_eq!(two(&[9, 10], array.clone(), array), Ok(()));
    }
    // Strides of axes of length 1 do not count.
    assert_eq!(two(&[1, 10], Array::new(BASE, 8, &[3, 8]), Array::new(BASE, 8, &[80, 8])), Ok(()));
    let overlap = Err(Error::Overlap { output: 0, input: 0 });
    assert_eq!(
        two(&[10, 10], Array::new(BASE, 8, &[80, 8]), Array::new(BASE, 8, &[8, 80])),
        overlap
    );
    assert_eq!(two(&[10], Array::new(BASE + 72, 8, &[-8]), Array::new(BASE, 8, &[8])), overlap);
    assert_eq!(two(&[10], Array::new(BASE, 4, &[8]), Array::new(BASE, 8, &[8])), overlap);
    assert_eq!(two(&[10], Array::new(BASE, 8, &[0]), Array::new(BASE, 8, &[8])), overlap);
}

#[test]
fn a_result_may_replace_the_first_element_of_what_is_reduced_as_a_whole() {
    let input = Array::new(BASE, 8, &[80, -8]);
    let reduce = |axes, address, bytes| {
        let output = Array { address, element_bytes: bytes, strides: None };
        Call::reduce(&[9, 10], axes, std::slice::from_ref(&input), &[output]).axes().map(|_| ())
    };
    let overlap = Err(Error::Overlap { output: 0, input: 0 });
    assert_eq!(reduce(3, BASE, 8), Ok(()));
    assert_eq!(reduce(3, BASE, 4), overlap);
    assert_eq!(reduce(3, BASE + 8, 8), overlap);
    // Rows that are read later would be overwritten.
    let output = Array::new(BASE, 8, &[80, 0]);
    let rows = Call::reduce(&[9, 10], 2, &[input], &[output]);
    assert_eq!(rows.axes().map(|_| ()), overlap);
}

#[test]
fn a_whole_output_is_exactly_an_input_whatever_is_reduced() {
    let input = Array::new(BASE, 8, &[80, -8]);
    let result = Array::new(2 * BASE, 8, &[80, 8]);
    let beside = |axes, address, strides: &[i64; 2]| {
        let outputs = [result.clone(), Array::new(address, 8, strides)];
        let call = Call::reduce(&[9, 10], axes, std::slice::from_ref(&input), &outputs);
        Call { whole_outputs: 0b10, ..call }.axes().map(|_| ())
    };
    let overlap = Err(Error::Overlap { output: 1, input: 0 });
    for axes in 0..4 {
        assert_eq!(beside(axes, BASE, &[80, -8]), Ok(()));
        // The first element alone is the same.
        assert_eq!(beside(axes, BASE, &[80, 8]), overlap);
        assert_eq!(beside(axes, BASE + 80, &[80, -8]), overlap);
        let broadcast = Err(Error::BroadcastOutput { output: 1, axis: 0, length: 9 });
        assert_eq!(beside(axes, 4 * BASE, &[0, 8]), broadcast);
    }
}

#[test]
fn what_the_naive_sets_of_these_tests_hold_is_what_calls_touch() {
    let call = Call::map(&[2, 3], &[], &[Array::new(BASE, 2, &[20, 4])]);
    let (bytes, are_apart) = bytes(&call, &call.outputs[0], true);
    let expected = [0, 1, 4, 5, 8, 9, 20, 21, 24, 25, 28, 29].map(|offset| BASE + offset);
    assert!(are_apart && bytes == HashSet::from(expected));
    assert_eq!(indexes(&[2, 2]).collect::<Vec<_>>(), [[0, 0], [0, 1], [1, 0], [1, 1]]);
}
