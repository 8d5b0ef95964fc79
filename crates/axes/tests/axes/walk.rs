//! The walk visits what the call means.

use crate::calls::{Array, Call, calls, indexes, walked};
use gpuvec_axes::{Inner, View};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::slice::from_ref;

/// For each result, by the addresses of its outputs: the addresses of the elements of the inputs and the whole
/// outputs, by their number.
type Meaning = BTreeMap<Vec<usize>, BTreeMap<usize, Vec<usize>>>;

/// Returns the meaning of a call, by its definition.
fn meaning(call: &Call) -> Meaning {
    let mut meaning = Meaning::new();
    let sum = |a: &[usize], b: &[usize]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<_>>();
    for kept in indexes(&call.lengths(false)) {
        let outputs = outputs(call, &call.outputs, false);
        let outputs = outputs.map(|output| call.address(output, true, &kept)).collect();
        let result = meaning.entry(outputs).or_default();
        for (number, reduced) in indexes(&call.lengths(true)).enumerate() {
            let element = sum(&kept, &reduced);
            let of_elements = call.inputs.iter().chain(self::outputs(call, &call.outputs, true));
            let addresses = of_elements.map(|array| call.address(array, false, &element));
            assert!(result.insert(number, addresses.collect()).is_none());
        }
    }
    meaning
}

/// Either the whole outputs, or the others.
fn outputs<'a, T>(call: &Call, outputs: &'a [T], are_whole: bool) -> impl Iterator<Item = &'a T> {
    let numbered = outputs.iter().enumerate();
    numbered.filter(move |(number, _)| call.is_whole(*number) == are_whole).map(|(_, of)| of)
}

/// Returns the elements that a walk by axes visits, by their places in it.
fn visited(call: &Call) -> Meaning {
    let (axes, views) = call.axes().unwrap().unwrap();
    let (inputs, written) = views.split_at(call.inputs.len());
    let elements: Vec<&View> = inputs.iter().chain(outputs(call, written, true)).collect();
    let results: Vec<&View> = outputs(call, written, false).collect();
    let (kept, reduced) = (axes.kept(), axes.reduced());
    let firsts = |view: &&View| walked(kept, view, view.first);
    let [element_firsts, result_firsts] =
        [&elements, &results].map(|views| views.iter().map(firsts).collect::<Vec<_>>());
    let mut visited = Meaning::new();
    for result in 0..kept.elements() {
        let at = |addresses: &Vec<Vec<usize>>| -> Vec<usize> {
            addresses.iter().map(|addresses| addresses[result]).collect()
        };
        let walks = elements.iter().zip(at(&element_firsts));
        let walks: Vec<_> = walks.map(|(view, first)| walked(reduced, view, first)).collect();
        let visits = visited.entry(at(&result_firsts)).or_default();
        for place in 0..reduced.elements() {
            let addresses = walks.iter().map(|walk| walk[place]).collect();
            assert!(visits.insert(place, addresses).is_none(), "element {place} twice");
        }
    }
    visited
}

/// Without the numbers of the elements, which are counted in another order where axes were moved.
fn without_numbers(meaning: Meaning) -> BTreeMap<Vec<usize>, Vec<Vec<usize>>> {
    let sorted = |elements: BTreeMap<usize, Vec<usize>>| {
        let mut elements: Vec<_> = elements.into_values().collect();
        elements.sort();
        elements
    };
    meaning.into_iter().map(|(outputs, elements)| (outputs, sorted(elements))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_walk_visits_the_elements_of_the_call(call in calls()) {
        let (expected, visited) = (meaning(&call), visited(&call));
        match call.is_indexed {
            true => prop_assert_eq!(visited, expected),
            false => prop_assert_eq!(without_numbers(visited), without_numbers(expected)),
        }
    }

    #[test]
    fn views_have_the_bytes_that_the_call_touches(call in calls()) {
        let (_, views) = call.axes().unwrap().unwrap();
        let arrays = call.inputs.iter().map(|array| (array, false));
        let outputs = call.outputs.iter().enumerate();
        let arrays = arrays.chain(outputs.map(|(number, array)| (array, !call.is_whole(number))));
        for (view, (array, is_output)) in views.iter().zip(arrays) {
            let addresses = call.addresses(array, is_output);
            prop_assert_eq!(Some(view.lowest), addresses.iter().min().copied());
            prop_assert_eq!(view.end, addresses.iter().max().unwrap() + array.element_bytes);
            prop_assert_eq!((view.element_bytes, view.address), (array.element_bytes, array.address));
        }
    }

    #[test]
    fn no_axis_is_left_that_could_be_dropped_flipped_or_merged(call in calls()) {
        let (axes, views) = call.axes().unwrap().unwrap();
        let (inputs, written) = views.split_at(call.inputs.len());
        let results = outputs(&call, written, false);
        let elements: Vec<&View> = outputs(&call, written, true).chain(inputs).collect();
        let all: Vec<&View> = results.chain(elements.iter().copied()).collect();
        // The arrays that walk the axes, and whether those may be flipped and sorted.
        let of_kept = (axes.kept(), &all, true);
        for (space, walking, is_free) in [of_kept, (axes.reduced(), &elements, !call.is_indexed)] {
            let rank = space.lengths().len();
            prop_assert!(space.lengths().iter().all(|length| *length > 1));
            for axis in 0..rank {
                let mut strides = walking.iter().map(|view| space.strides(view)[axis]);
                let is_forwards = strides.clone().any(|stride| stride > 0);
                prop_assert!(!is_free || is_forwards || strides.all(|stride| stride == 0));
            }
            for inner in 1..rank {
                let is_one = |view: &&View| {
                    let strides = space.strides(view);
                    strides[inner - 1] == strides[inner] * space.lengths()[inner] as isize
                };
                prop_assert!(!walking.iter().all(is_one));
            }
            // The first output decides the order of the axes, a result before whole ones, unless they are numbered.
            if let Some(output) = walking.first().filter(|_| is_free && walking.len() > inputs.len()) {
                let strides = space.strides(output).iter().map(|stride| stride.unsigned_abs());
                prop_assert!(strides.rev().is_sorted());
            }
        }
    }

    #[test]
    fn classes_and_runs_are_those_of_the_walk(call in calls()) {
        let (axes, views) = call.axes().unwrap().unwrap();
        for view in &views {
            let walk = walked(axes.kept(), view, view.first);
            let steps = walk.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
            let run = 1 + steps.take_while(|step| *step == view.element_bytes).count();
            prop_assert_eq!(axes.kept().run(view), run);
            if let Some(second) = walk.get(1) {
                let step = second.wrapping_sub(walk[0]);
                let class = match axes.kept().inner(view) {
                    Inner::Unit => step == view.element_bytes,
                    Inner::Zero => step == 0,
                    Inner::Strided => step != 0 && step != view.element_bytes,
                };
                prop_assert!(class);
            }
        }
    }
}

/// The lengths of a call's kept and reduced axes, and the strides of its views along the kept ones.
fn left(call: &Call) -> (Vec<usize>, Vec<usize>, Vec<Vec<isize>>) {
    let (axes, views) = call.axes().unwrap().unwrap();
    let strides = views.iter().map(|view| axes.kept().strides(view).to_vec()).collect();
    (axes.kept().lengths().to_vec(), axes.reduced().lengths().to_vec(), strides)
}

const A: usize = 1 << 20;
const B: usize = 2 << 20;
const OUT: usize = 3 << 20;

#[test]
fn arrays_in_the_same_order_have_one_axis() {
    for strides in [[400, 80, 4], [4, 16, 96]] {
        let shape = if strides[0] == 4 { [4, 6, 5] } else { [6, 5, 20] };
        let arrays = [A, B, OUT].map(|address| Array::new(address, 4, &strides));
        let call = Call::map(&shape, &arrays[..2], &arrays[2..]);
        let n = shape.iter().product::<i64>() as usize;
        assert_eq!(left(&call), (vec![n], vec![], vec![vec![4]; 3]));
    }
}

#[test]
fn arrays_that_all_go_backwards_go_forwards() {
    let arrays = [A, B, OUT].map(|address| Array::new(address, 8, &[-48, -8]));
    let call = Call::map(&[5, 6], &arrays[..2], &arrays[2..]);
    assert_eq!(left(&call), (vec![30], vec![], vec![vec![8]; 3]));
    let (_, views) = call.axes().unwrap().unwrap();
    for (view, array) in views.iter().zip(&arrays) {
        assert_eq!([view.first, view.lowest], [array.address - 29 * 8; 2]);
        assert_eq!(view.end, array.address + 8);
    }
}

#[test]
fn an_array_that_goes_backwards_beside_others_does_so() {
    let arrays = [Array::new(A, 4, &[-4]), Array::new(B, 4, &[4]), Array::new(OUT, 4, &[4])];
    let call = Call::map(&[9], &arrays[..2], &arrays[2..]);
    assert_eq!(left(&call), (vec![9], vec![], vec![vec![-4], vec![4], vec![4]]));
}

#[test]
fn rows_columns_and_transposed_arrays_keep_the_order_of_the_output() {
    let out = Array::new(OUT, 4, &[40, 4]);
    for (strides, expected) in [([0, 4], [0, 4]), ([4, 0], [4, 0]), ([4, 28], [4, 28])] {
        let call = Call::map(&[7, 10], &[Array::new(A, 4, &strides)], from_ref(&out));
        assert_eq!(left(&call), (vec![7, 10], vec![], vec![expected.to_vec(), vec![40, 4]]));
    }
}

#[test]
fn one_value_has_no_axes() {
    for shape in [&[][..], &[1], &[1, 1, 1]] {
        let arrays = [A, OUT].map(|address| Array::new(address, 2, &vec![0; shape.len()]));
        let call = Call::map(shape, &arrays[..1], &arrays[1..]);
        assert_eq!(left(&call), (vec![], vec![], vec![vec![]; 2]));
        let (axes, views) = call.axes().unwrap().unwrap();
        assert_eq!([axes.kept(), axes.reduced()].map(|space| space.elements()), [1, 1]);
        assert_eq!(axes.kept().inner(&views[0]), Inner::Unit);
    }
}

#[test]
fn a_sum_of_all_has_one_reduced_axis() {
    let input = Array::new(A, 8, &[8, 40, 240]);
    let output = Array { address: OUT, element_bytes: 8, strides: None };
    let call = Call::reduce(&[5, 6, 7], 7, &[input], &[output]);
    assert_eq!(left(&call), (vec![], vec![210], vec![vec![]; 2]));
}

#[test]
fn the_first_of_equal_elements_is_the_first_in_c_order_whatever_the_strides() {
    // A Fortran-ordered input, whose walk would begin down the columns.
    let input = Array::new(A, 4, &[4, 12]);
    let output = Array::new(OUT, 8, &[-7, -7]);
    let call = Call { is_indexed: true, ..Call::reduce(&[3, 4], 3, &[input], &[output]) };
    let (axes, views) = call.axes().unwrap().unwrap();
    assert_eq!(axes.reduced().lengths(), [3, 4]);
    assert_eq!(axes.reduced().strides(&views[0]), [4, 12]);
}

#[test]
fn no_results_need_no_arrays() {
    let nowhere = Array { address: 0, element_bytes: 4, strides: None };
    let call = Call::map(&[3, 0, 5], from_ref(&nowhere), from_ref(&nowhere));
    assert!(matches!(call.axes(), Ok(None)));
    let call = Call::reduce(&[3, 0, 5], 1, from_ref(&nowhere), from_ref(&nowhere));
    assert!(matches!(call.axes(), Ok(None)));
}

#[test]
fn results_of_no_elements_need_outputs_alone() {
    let input = Array { address: 1, element_bytes: 4, strides: None };
    let output = Array { address: OUT, element_bytes: 4, strides: None };
    let call = Call { is_indexed: true, ..Call::reduce(&[3, 0, 5], 2, &[input], &[output]) };
    let (axes, views) = call.axes().unwrap().unwrap();
    assert_eq!((axes.kept().lengths(), axes.reduced().elements()), (&[15][..], 0));
    assert_eq!((views[0].lowest, views[0].end), (1, 1));
    assert_eq!((views[1].lowest, views[1].end), (OUT, OUT + 60));
}

#[test]
fn strides_of_axes_of_length_one_and_of_reduced_axes_of_outputs_are_ignored() {
    let input = Array::new(A, 4, &[i64::MAX, 4, 1]);
    let output = Array::new(OUT, 4, &[i64::MIN, 3, 5]);
    let call = Call::reduce(&[1, 10, 1], 2, &[input], &[output]);
    assert_eq!(left(&call), (vec![], vec![10], vec![vec![]; 2]));
}

#[test]
fn thirty_two_axes_are_taken() {
    let mut shape = vec![1; 32];
    (0..32).step_by(3).for_each(|axis| shape[axis] = 2);
    let arrays = [A, OUT].map(|address| Array { address, element_bytes: 4, strides: None });
    let call = Call::map(&shape, &arrays[..1], &arrays[1..]);
    assert_eq!(left(&call), (vec![2048], vec![], vec![vec![4]; 2]));
}
