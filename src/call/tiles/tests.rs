//! The tiles of calls: each element is in one, and buffers and launches hold what tiles have.

use super::*;
use crate::call::array::{Array, Layout, MemoryKind};
use crate::call::checked::{Argument, Arguments};
use crate::call::formula::{Binding, Evaluation, Formula};
use crate::call::plan::tests::formula;
use crate::call::task::Task;
use MemoryKind::{Pageable, Pinned};
use gpuvec_ops::Op;
use proptest::prelude::*;

const DEVICE: MemoryKind = MemoryKind::Device { ordinal: 0 };

/// Arrays of a call, one a stride of 0 along some axes, in memory of these kinds.
struct Case {
    op: Op,
    /// Says that beside a sum of f32 the same elements are stored.
    is_mixed: bool,
    shape: Vec<i64>,
    /// The axes of each input in the order of memory.
    orders: [Vec<usize>; 2],
    /// The axes along which the second input is the same.
    repeated: u64,
    reduced: u64,
    kinds: [MemoryKind; 4],
    wants_states: bool,
}

impl Case {
    /// The strides of an array of elements of `bytes` bytes, with a gap, in an order of axes.
    fn strides(&self, order: &[usize], bytes: i64, repeated: u64) -> Vec<i64> {
        let (mut strides, mut step) = (vec![0; self.shape.len()], 2 * bytes);
        for axis in order.iter().rev().filter(|axis| repeated >> **axis & 1 == 0) {
            strides[*axis] = step;
            step *= self.shape[*axis];
        }
        strides
    }

    /// Plans the call for a number of devices.
    fn planned(
        &self, gpus: usize, then: impl FnOnce(&Call<'_>, Strides<'_>, &TilePlan, &Transfers),
    ) {
        const SPACE: usize = 1 << 44;
        let [of_input, of_result] = [self.op.element_bytes(), self.op.output_bytes()];
        let bytes = [of_input, of_input, of_result, of_input];
        let in_order: Vec<usize> = (0..self.shape.len()).collect();
        let of_results = self.strides(&in_order, bytes[2] as i64, self.reduced);
        let strides = [
            self.strides(&self.orders[0], bytes[0] as i64, 0),
            self.strides(&self.orders[1], bytes[1] as i64, self.repeated),
            of_results,
            self.strides(&self.orders[1], bytes[3] as i64, 0),
        ];
        let (inputs, outputs) = (self.op.inputs(), 1 + usize::from(self.is_mixed));
        let mixed = self.is_mixed.then(|| formula("sum(a); a"));
        let formula = mixed.as_ref().unwrap_or(Formula::of(self.op));
        let layouts = formula.outputs().collect::<Vec<_>>();
        let arguments: Vec<Argument<'_>> = (0..2 + outputs)
            .map(|number| {
                let layout = match number.checked_sub(2) {
                    Some(output) => layouts[output],
                    None => Layout::contiguous(bytes[number]),
                };
                let pointer = std::ptr::without_provenance((number + 1) * SPACE);
                let strides = Some(bytemuck::cast_slice(&strides[number]));
                // SAFETY: the array is never accessed.
                unsafe { Argument::new("x", pointer, layout, strides) }
            })
            .collect();
        let bindings = &[Binding::Array; 2][..inputs];
        let arguments = Arguments {
            task: Task::Evaluate(Evaluation { formula, bindings, groups: 0 }),
            contiguous: None,
            shape: &self.shape,
            reduced_axes: self.reduced,
            inputs: &arguments[..inputs],
            outputs: &arguments[2..],
        };
        let kind_of = |array: &Array| Ok(self.kinds[array.address / SPACE - 1]);
        let checked = arguments.check(kind_of, |call| {
            let call = &if self.wants_states { call.for_states() } else { *call };
            // The arrays are contiguous if there is one element.
            let Some(strides) = call.strides() else { return Ok(()) };
            let devices: Vec<usize> = (0..gpus).collect();
            let mut transfers = Transfers::new(call, &devices, false, false)?;
            let planned = TilePlan::new(call, strides, gpus, &mut transfers);
            then(call, strides, &planned, &transfers);
            Ok(())
        });
        checked.unwrap();
    }
}

/// Exact sums of the rows of a matrix in C order.
fn sums_of_rows(shape: [i64; 2], kinds: [MemoryKind; 4]) -> Case {
    Case {
        op: Op::SumF32,
        is_mixed: false,
        shape: shape.to_vec(),
        orders: [vec![0, 1], vec![0, 1]],
        repeated: 0,
        reduced: 0b10,
        kinds,
        wants_states: false,
    }
}

/// Fails unless the tiles have each element once, and buffers have room for each tile.
fn check(call: &Call<'_>, strides: Strides<'_>, planned: &TilePlan, transfers: &Transfers) {
    let (tiles, mut elements) = (&planned.tiles, 0);
    let (mut first, mut number, mut first_result, mut last_results) = (0, 0, 0, 0);
    for tile in (0..tiles.count().min(5000)).map(|number| tiles.at(number)) {
        let lengths = tile.lengths();
        let (kept, reduced) = lengths.split_at(tile.kept().lengths().len());
        let [results, n] = [kept, reduced].map(|axes| axes.iter().product::<usize>());
        assert!(results <= MOST_ELEMENTS && n <= MOST_ELEMENTS);
        assert!(!(call.task().kind() == TaskKind::Mixed) || results * n <= MOST_ELEMENTS);
        // The tiles of a block of results follow each other.
        first = if tile.number == number { first } else { 0 };
        assert_eq!((tile.first, tile.number - number <= 1), (first, true));
        first_result += if tile.number == number { 0 } else { last_results };
        assert_eq!(tiles.first_result(&tile), first_result);
        (first, number, last_results) = (first + n, tile.number, results);
        elements += results * n;
        let mut ends: Vec<[usize; 2]> = Vec::new();
        for (array, (view, transfer)) in strides.views.iter().zip(transfers.all()).enumerate() {
            let varying = lengths.iter().zip(tile.strides(view)).filter(|(_, step)| *step != 0);
            let distinct: usize = varying.map(|(length, _)| length).product();
            let bytes = match transfer {
                Transfer::InPlace | Transfer::Mapped | Transfer::Table => continue,
                Transfer::Staged | Transfer::Dma => distinct * view.element_bytes,
                Transfer::State => results * state_bytes(call, array - call.inputs().len()),
            };
            let start = planned.offsets[array];
            ends.push([start, start + bytes]);
        }
        ends.sort_unstable();
        assert!(ends.windows(2).all(|pair| pair[0][1] <= pair[1][0]), "{ends:?}");
        assert!(ends.iter().all(|end| end[1] <= gpu::STAGED_SLOT_BYTES), "{ends:?}");
    }
    if tiles.count() <= 5000 {
        assert_eq!(elements, call.n());
    }
    let merges = transfers.outputs()[0] == Transfer::State;
    assert!(!transfers.outputs()[1..].contains(&Transfer::State));
    assert_eq!(merges, tiles.parts() > 1 || strides.wants_states);
}

/// The axes in the order that random numbers have.
fn order(keys: &[u8; 4], axes: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..axes).collect();
    order.sort_by_key(|axis| keys[*axis]);
    order
}

proptest! {
    #[test]
    fn tiles_have_each_element_once_and_fit_into_buffers(
        (op, is_mixed) in prop::sample::select(vec![
            (Op::AddF32, false), (Op::DotF32, false), (Op::DotF64, false), (Op::SumF32, false),
            (Op::MaxF64, false), (Op::SumF32, true),
        ]),
        lengths in prop::collection::vec((0u32..22, 1i64..20), 1..4),
        orders in any::<[[u8; 4]; 2]>(), repeated in 0u64..8, reduced in 0u64..8,
        kinds in prop::array::uniform4(prop::sample::select(vec![Pageable, Pinned, DEVICE])),
        gpus in 1usize..5, wants_states in any::<bool>(),
    ) {
        let shape: Vec<i64> =
            lengths.iter().map(|(log2, less)| ((1i64 << log2) - less).max(1)).collect();
        let elements = shape.iter().try_fold(1i64, |all, length| all.checked_mul(*length));
        prop_assume!(elements.is_some_and(|elements| elements < 1 << 40));
        let is_reduction = Formula::of(op).kind == TaskKind::Reduced;
        let reduced = if is_reduction { reduced & !(!0 << shape.len()) } else { 0 };
        let wants_states = is_reduction && !is_mixed && wants_states;
        let orders = orders.map(|keys| order(&keys, shape.len()));
        let case = Case { op, is_mixed, shape, orders, repeated, reduced, kinds, wants_states };
        case.planned(gpus, check);
    }
}

#[test]
fn longer_results_than_a_launch_has_elements_have_several_tiles() {
    let case = |shape, kind| sums_of_rows(shape, [kind; 4]);
    for (shape, tiles) in
        [([3, 1 << 30], [1, 1]), ([3, (1 << 30) + 1], [2, 2]), ([1 << 31, 3], [2, 1])]
    {
        case(shape, DEVICE).planned(1, |call, strides, planned, transfers| {
            assert_eq!([planned.tiles.count(), planned.tiles.parts()], tiles);
            check(call, strides, planned, transfers);
        });
    }
    // An elementwise kernel numbers all elements of a tile's results.
    for (shape, tiles) in [([3, 1 << 29], [2, 1]), ([1 << 21, 1 << 10], [2, 1])] {
        let case = Case { is_mixed: true, ..case(shape, DEVICE) };
        case.planned(1, |call, strides, planned, transfers| {
            assert_eq!([planned.tiles.count(), planned.tiles.parts()], tiles);
            assert_eq!(planned.tiles, strides.tiles_in_place(call.task()));
            check(call, strides, planned, transfers);
        });
    }
    // Several devices share what they reach.
    case([2, 1 << 26], Pinned).planned(3, |_, _, planned, _| assert!(planned.tiles.count() > 12));
}

#[test]
fn columns_in_host_memory_are_gathered_side_by_side() {
    let case = Case { reduced: 0b01, ..sums_of_rows([1 << 20, 1000], [Pageable; 4]) };
    case.planned(1, |call, strides, planned, transfers| {
        assert_eq!(planned.tiles.at(0).lengths()[..], [256, 1024]);
        check(call, strides, planned, transfers);
    });
}

#[test]
fn wanted_states_fit_into_a_slot_though_arrays_are_in_place() {
    let sums = sums_of_rows([10_000, 100], [DEVICE, DEVICE, Pageable, Pageable]);
    let case = Case { op: Op::DotF64, wants_states: true, ..sums };
    case.planned(1, |call, strides, planned, transfers| {
        let each = state_bytes(call, 0);
        assert_eq!(
            planned.tiles.at(0).lengths()[..],
            [STATES_BYTES / (each + BUFFER_ALIGNMENT), 100]
        );
        check(call, strides, planned, transfers);
    });
}

#[test]
fn results_in_pageable_memory_do_not_cut_their_elements() {
    let kinds = [DEVICE, DEVICE, Pageable, Pageable];
    for (shape, tiles) in [([1000, 1 << 20], 1), ([1 << 19, 100], 1), ([1 << 20, 100], 2)] {
        sums_of_rows(shape, kinds).planned(1, |call, strides, planned, transfers| {
            assert_eq!([planned.tiles.count(), planned.tiles.parts()], [tiles, 1]);
            check(call, strides, planned, transfers);
        });
    }
}
