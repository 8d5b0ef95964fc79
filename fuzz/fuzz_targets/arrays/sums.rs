//! Accumulators of a shape, beside the terms that were added to each of their sums.

use crate::evaluate::{Expected, wrong};
use crate::formulas::{double, exact, single};
use crate::views::{Layout, Lengths, MOST, View, count, count_along, is_reduced, results};
use crate::{Arena, gpu_is_missing};
use gpuvec::abi::accumulator::*;
use gpuvec::abi::errors::gpuvec_last_status;
use gpuvec::gpuvec_status::*;
use gpuvec::{gpuvec_accumulator, gpuvec_array};
use gpuvec_exact::{Dot, Sum};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use std::ptr::{null, null_mut, with_exposed_provenance_mut};

#[derive(Arbitrary, Debug)]
pub enum SumCall {
    Create {
        kind: Kind,
        lengths: Lengths,
    },
    Add(Box<Addition>),
    /// Serializes the sums and reads the bytes again, perhaps with one that is damaged, or as another shape.
    Again {
        damage: u8,
        at: u16,
        lengths: Option<Lengths>,
    },
    /// Adds the accumulator to itself.
    Merge,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Kind {
    Known(u8),
    Any(i32),
}

#[derive(Arbitrary, Debug)]
pub struct Addition {
    lengths: Lengths,
    reduced: u8,
    /// Takes the lengths of the axes that are not reduced from the accumulator.
    fits: bool,
    inputs: [Layout; 2],
}

pub struct Sums {
    handle: *mut gpuvec_accumulator,
    kind: i32,
    shape: Vec<i64>,
    terms: Vec<Vec<(u64, u64)>>,
}

impl Drop for Sums {
    fn drop(&mut self) {
        assert_eq!(gpuvec_accumulator_destroy(self.handle), 0);
    }
}

pub fn perform(arena: &Arena, sums: &mut Option<Sums>, call: &SumCall) {
    match (call, sums.as_mut()) {
        (SumCall::Create { kind, lengths }, _) => {
            *sums = create(*kind, lengths.shape()).or(sums.take())
        }
        (_, None) => {}
        (SumCall::Add(addition), Some(sums)) => sums.add(arena, addition),
        (SumCall::Again { damage, at, lengths }, Some(sums)) => {
            sums.again(*damage, (*at).into(), lengths.as_ref());
        }
        (SumCall::Merge, Some(sums)) => sums.merge(),
    }
    if let Some(sums) = sums {
        assert_eq!(sums.value(sums.handle), sums.expected(), "{call:?}");
    }
}

/// Creates an accumulator, if the arguments are right; fails unless they are refused otherwise.
fn create(kind: Kind, shape: Vec<i64>) -> Option<Sums> {
    let kind = match kind {
        Kind::Known(kind) => i32::from(kind % 4) + 1,
        Kind::Any(kind) => kind,
    };
    let states = count(&shape).filter(|_| shape.len() <= 32);
    if states.is_some_and(|states| states > MOST as i64) {
        return None;
    }
    // SAFETY: a slice.
    let handle = unsafe { gpuvec_accumulator_create_nd(kind, shape.len() as i32, shape.as_ptr()) };
    let is_right = (1..=4).contains(&kind) && states.is_some();
    assert_eq!(handle.is_null(), !is_right, "{kind} {shape:?}: {}", crate::last_error());
    let refused = [GPUVEC_ERROR_VALUE as i32, GPUVEC_ERROR_SIZE as i32];
    assert!(is_right || refused.contains(&gpuvec_last_status()), "{kind} {shape:?}");
    let terms = vec![Vec::new(); states? as usize];
    is_right.then_some(Sums { handle, kind, shape, terms })
}

impl Sums {
    fn size(&self) -> usize {
        if self.kind <= 2 { 4 } else { 8 }
    }

    fn inputs(&self) -> usize {
        if self.kind % 2 == 1 { 1 } else { 2 }
    }

    fn add(&mut self, arena: &Arena, addition: &Addition) {
        let given = addition.lengths.shape();
        let mut mine = self.shape.iter();
        let mut shape = Vec::new();
        for (axis, length) in given.iter().enumerate() {
            let fitting =
                if is_reduced(axis % 8, addition.reduced.into()) { None } else { mine.next() };
            shape.push(if addition.fits { *fitting.unwrap_or(length) } else { *length });
        }
        shape.extend(mine.filter(|_| addition.fits));
        let axes = 1_u64.checked_shl(shape.len() as u32).unwrap_or(0).wrapping_sub(1);
        let reduced = u64::from(addition.reduced) * 0x0101_0101_0101_0101 & axes;
        let Some(elements) =
            count_along(&shape, reduced).filter(|elements| *elements <= MOST as i64)
        else {
            return;
        };
        let mut views: Vec<View> = Vec::new();
        for layout in &addition.inputs[..self.inputs()] {
            let view = View::new(layout, self.size(), &shape, arena.address(), &views);
            views.push(view);
        }
        let expected = self.errors(&shape, reduced, elements, &views);
        let is_there = shape.len() <= 32 && views.iter().all(|view| arena.holds(view, &shape, 0));
        if expected.errors.is_empty() && !is_there {
            return;
        }
        let array = |view: &View| gpuvec_array {
            data: with_exposed_provenance_mut(view.address),
            strides: view.strides.as_ref().map_or(null(), |strides| strides.as_ptr()),
        };
        let arrays: Vec<_> = views.iter().map(array).collect();
        let (axes, lengths) = (shape.len() as i32, shape.as_ptr());
        // SAFETY: all arrays are in the arena, or the library refuses the call.
        let status = unsafe {
            gpuvec_accumulator_add_nd(
                self.handle,
                axes,
                lengths,
                arrays.as_ptr(),
                reduced,
                null_mut(),
            )
        };
        expected.check(status, is_there, &(addition, &shape, self.kind));
        if status == 0 && elements > 0 {
            let bits = |view: &View| -> Vec<u64> {
                let elements = view.elements(&shape, 0);
                elements.into_iter().map(|address| arena.bits(address, view.size)).collect()
            };
            let (a, b) = (bits(&views[0]), bits(&views[self.inputs() - 1]));
            for (index, result) in results(&shape, reduced).into_iter().enumerate() {
                self.terms[result].push((a[index], b[index]));
            }
        }
    }

    fn errors(&self, shape: &[i64], reduced: u64, elements: i64, views: &[View]) -> Expected {
        let mut expected = Expected::default();
        let is_kept = |axis: &usize| !is_reduced(*axis, reduced);
        if shape.len() > 32 {
            expected.errors.push(GPUVEC_ERROR_VALUE);
            return expected;
        }
        let own: Vec<i64> = (0..shape.len()).filter(is_kept).map(|axis| shape[axis]).collect();
        if own != self.shape {
            expected.errors.push(GPUVEC_ERROR_VALUE);
        }
        let mut others: Vec<_> = views.iter().flat_map(|view| wrong(view, shape, 0)).collect();
        if gpu_is_missing() {
            others.push(GPUVEC_ERROR_NO_GPU);
        }
        match elements {
            0 => expected.possible.extend(others),
            _ => expected.errors.extend(others),
        }
        if shape.iter().filter(|length| **length > 1).count() > 8 {
            expected.possible.push(GPUVEC_ERROR_VALUE);
        }
        expected
    }

    /// Every sum of the terms, rounded.
    fn expected(&self) -> Vec<u64> {
        let sum = |terms: &Vec<(u64, u64)>| {
            let floats = || {
                terms.iter().map(|(a, b)| (f32::from_bits(*a as u32), f32::from_bits(*b as u32)))
            };
            let doubles = || terms.iter().map(|(a, b)| (f64::from_bits(*a), f64::from_bits(*b)));
            match self.kind {
                1 => single(exact::<Sum<f32>>(floats().map(|(a, _)| a))),
                2 => single(exact::<Dot<f32>>(floats())),
                3 => double(exact::<Sum<f64>>(doubles().map(|(a, _)| a))),
                _ => double(exact::<Dot<f64>>(doubles())),
            }
        };
        self.terms.iter().map(sum).collect()
    }

    /// The values of an accumulator of this kind and number of sums.
    fn value(&self, handle: *mut gpuvec_accumulator) -> Vec<u64> {
        let mut bytes = vec![0_u8; self.terms.len() * self.size()];
        // SAFETY: there is room for all values.
        let status = unsafe { gpuvec_accumulator_value(handle, bytes.as_mut_ptr().cast()) };
        assert_eq!(status, 0, "{}", crate::last_error());
        bytes.chunks_exact(self.size()).map(crate::bits_of).collect()
    }

    fn again(&self, damage: u8, at: usize, lengths: Option<&Lengths>) {
        let state = gpuvec_accumulator_bytes(self.kind);
        let mut bytes = vec![0_u8; self.terms.len() * state];
        for (wrong, status) in [(1, GPUVEC_ERROR_VALUE as i32), (0, 0)] {
            let to = bytes.as_mut_ptr().cast();
            // SAFETY: there is room for all states, and the library refuses another size.
            let given =
                unsafe { gpuvec_accumulator_serialize(self.handle, to, bytes.len() + wrong) };
            assert_eq!(given, status, "{}", crate::last_error());
        }
        let index = at % bytes.len().max(1);
        let is_damaged = damage & 1 == 1 && damage > 1 && !bytes.is_empty();
        if is_damaged {
            bytes[index] ^= damage & 0xFE;
        }
        let shape = lengths.map_or(self.shape.clone(), Lengths::shape);
        let states = count(&shape).filter(|_| shape.len() <= 32);
        let fits = states == Some(self.terms.len() as i64);
        let (axes, from) = (shape.len() as i32, bytes.as_ptr().cast());
        // SAFETY: slices.
        let read = unsafe {
            gpuvec_accumulator_deserialize_nd(self.kind, axes, shape.as_ptr(), from, bytes.len())
        };
        assert_eq!(read.is_null(), is_damaged || !fits, "{shape:?}: {}", crate::last_error());
        if read.is_null() {
            let refused = [GPUVEC_ERROR_VALUE, GPUVEC_ERROR_SIZE, GPUVEC_ERROR_STATE];
            assert!(refused.map(|status| status as i32).contains(&gpuvec_last_status()));
            return;
        }
        assert_eq!(self.value(read), self.expected());
        let status = gpuvec_accumulator_merge(self.handle, std::ptr::null_mut());
        assert_ne!(status, 0);
        assert_eq!(gpuvec_accumulator_destroy(read), 0);
        assert_eq!(gpuvec_accumulator_destroy(read), GPUVEC_ERROR_HANDLE as i32);
    }

    fn merge(&mut self) {
        if self.terms.iter().map(Vec::len).sum::<usize>() > MOST {
            return;
        }
        assert_eq!(gpuvec_accumulator_merge(self.handle, self.handle), 0);
        for terms in &mut self.terms {
            terms.extend_from_within(..);
        }
    }
}
