//! Blocks have every element once, in the order of the walk.

use crate::calls::{Array, Call, calls, walked};
use gpuvec_axes::{Access, Block, Space, View};
use proptest::prelude::*;

/// The addresses of a view's elements in blocks with these numbers.
fn in_blocks(
    space: &Space, view: &View, most: usize, numbers: std::ops::Range<usize>,
) -> Vec<usize> {
    let blocks = space.blocks(most);
    let walk = blocks.walk(numbers);
    walk.flat_map(|block| {
        walked(block.space(), view, view.first.wrapping_add_signed(block.offset(view)))
    })
    .collect()
}

/// True if the addresses of a block's elements agree with its access.
fn is_access(access: Access, addresses: &[usize], element_bytes: usize) -> bool {
    let steps =
        |step: usize| addresses.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(step));
    match access {
        Access::Direct => steps(element_bytes),
        Access::Uniform => steps(0),
        Access::Gathered => !steps(element_bytes) && !steps(0),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn blocks_are_the_walk_in_parts(call in calls(), most in 0usize..100, part in 0.0..1.0) {
        let (axes, views) = call.axes().unwrap().unwrap();
        for (space, view) in views.iter().flat_map(|view| [(axes.kept(), view), (axes.reduced(), view)]) {
            let blocks = space.blocks(most);
            let (whole, middle) = (walked(space, view, view.first), (blocks.count() as f64 * part) as usize);
            prop_assert_eq!(&in_blocks(space, view, most, 0..blocks.count()), &whole);
            let mut parts = in_blocks(space, view, most, 0..middle);
            parts.extend(in_blocks(space, view, most, middle..blocks.count()));
            prop_assert_eq!(&parts, &whole);
        }
    }

    #[test]
    fn parts_of_the_elements_have_each_block_that_begins_in_them(call in calls(), most in 1usize..100) {
        let (axes, _) = call.axes().unwrap().unwrap();
        for space in [axes.kept(), axes.reduced()] {
            let blocks = space.blocks(most);
            let mut begins = 0;
            for (number, block) in blocks.walk(0..blocks.count()).enumerate() {
                prop_assert_eq!(blocks.beginning_at(begins), number);
                prop_assert_eq!(blocks.first_element(number), begins);
                for inside in begins + 1..=begins + block.space().elements() {
                    prop_assert_eq!(blocks.beginning_at(inside), number + 1);
                }
                begins += block.space().elements();
            }
            prop_assert_eq!(begins, space.elements());
            prop_assert_eq!(blocks.beginning_at(usize::MAX), blocks.count());
        }
    }

    #[test]
    fn blocks_are_as_long_as_allowed_and_alike(call in calls(), most in 1usize..100) {
        let (axes, views) = call.axes().unwrap().unwrap();
        for (space, view) in views.iter().flat_map(|view| [(axes.kept(), view), (axes.reduced(), view)]) {
            let blocks = space.blocks(most);
            let all: Vec<_> = blocks.walk(0..blocks.count()).collect();
            prop_assert_eq!(all.len(), blocks.count());
            prop_assert!(blocks.elements() <= most);
            prop_assert!(2 * blocks.elements() > most || all.len() == 1 || space.lengths().len() > 1);
            let access = blocks.full().access(view);
            for (number, block) in all.iter().enumerate() {
                prop_assert_eq!(block, &blocks.at(number));
                prop_assert!(block.space().elements() <= blocks.elements());
                let addresses = walked(block.space(), view, 0);
                if block.space() == &blocks.full() && addresses.len() > 1 {
                    prop_assert!(is_access(access, &addresses, view.element_bytes));
                }
            }
            let inner = blocks.full().lengths().len();
            let along = space.lengths().iter().nth_back(inner.wrapping_sub(1)).map_or(1, |length| {
                length.div_ceil(blocks.full().lengths()[0])
            });
            let neighbours = (1..all.len()).filter(|number| number % along != 0);
            let mut pairs = neighbours.map(|number| [&all[number - 1], &all[number]]);
            let is_same = |[a, b]: [&Block; 2]| a.offset(view) == b.offset(view);
            prop_assert_eq!(pairs.clone().all(is_same), blocks.repeats(view) || pairs.next().is_none());
        }
    }
}

/// The kept axes of an elementwise call on C-ordered f32 and an input with these strides.
fn space_and_input(shape: &[i64], strides: &[i64]) -> (Space, View) {
    let output = Array { address: 1 << 30, element_bytes: 4, strides: None };
    let call = Call::map(shape, &[Array::new(1 << 20, 4, strides)], &[output]);
    let (axes, views) = call.axes().unwrap().unwrap();
    (*axes.kept(), views[0])
}

#[test]
fn short_rows_are_in_blocks_of_whole_rows() {
    let (space, row) = space_and_input(&[1000, 3], &[0, 4]);
    let blocks = space.blocks(1024);
    assert_eq!((blocks.elements(), blocks.count()), (1023, 3));
    assert_eq!(blocks.full().lengths(), [341, 3]);
    assert_eq!(blocks.full().access(&row), Access::Gathered);
    assert!(blocks.repeats(&row));
    let (space, column) = space_and_input(&[1000, 3], &[4, 0]);
    assert_eq!(space.blocks(1024).full().access(&column), Access::Gathered);
    assert!(!space.blocks(1024).repeats(&column));
}

#[test]
fn long_rows_are_cut() {
    let (space, row) = space_and_input(&[10, 3000], &[0, 4]);
    let blocks = space.blocks(1024);
    assert_eq!((blocks.elements(), blocks.count()), (1024, 30));
    assert_eq!(blocks.full().access(&row), Access::Direct);
    let last = blocks.at(29);
    assert_eq!((last.space().lengths(), last.offset(&row)), (&[3000 - 2048][..], 2048 * 4));
    let (space, column) = space_and_input(&[10, 3000], &[4, 0]);
    let blocks = space.blocks(1024);
    assert_eq!(blocks.full().access(&column), Access::Uniform);
    assert!(blocks.repeats(&column));
    assert_eq!(blocks.at(29).offset(&column), 9 * 4);
}

#[test]
fn one_axis_is_cut_into_parts() {
    let (space, input) = space_and_input(&[10_000], &[4]);
    let blocks = space.blocks(1000);
    assert_eq!((blocks.elements(), blocks.count()), (1000, 10));
    let offsets: Vec<_> = blocks.walk(3..5).map(|block| block.offset(&input)).collect();
    assert_eq!(offsets, [12_000, 16_000]);
    assert_eq!(blocks.walk(4..4).count(), 0);
}

#[test]
fn no_elements_have_no_blocks() {
    let arrays =
        [1 << 20, 1 << 30].map(|address| Array { address, element_bytes: 4, strides: None });
    let call = Call::reduce(&[3, 0], 2, &arrays[..1], &arrays[1..]);
    let (axes, _) = call.axes().unwrap().unwrap();
    assert_eq!(axes.reduced().blocks(10).count(), 0);
    assert_eq!(axes.kept().blocks(10).count(), 1);
}
