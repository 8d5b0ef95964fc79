//! What include/gpuvec.h promises of one call: the errors that there are, and the result.

use crate::memory::Memory;
use crate::steps::Operation;
use gpuvec::abi::classic::{add_arrays, dot_product, vector_add};
use gpuvec::gpuvec_status::*;
use std::ops::Add;

/// The arguments of one call. Elements are 32 bits wide in every operation.
#[derive(Debug)]
pub struct Arguments {
    pub operation: Operation,
    pub a: usize,
    pub b: usize,
    pub out: usize,
    pub n: usize,
}

impl Arguments {
    pub fn call(&self) -> i32 {
        use std::ptr::{with_exposed_provenance as input, with_exposed_provenance_mut as output};
        let Arguments { a, b, out, n, .. } = *self;
        // SAFETY: every array is in memory that is there, or the library refuses the call.
        unsafe {
            match self.operation {
                Operation::VectorAdd => vector_add(input(a), input(b), output(out), n),
                Operation::AddArrays => add_arrays(input(a), input(b), output(out), n),
                Operation::DotProduct => dot_product(input(a), input(b), output(out), n),
            }
        }
    }

    fn is_reduction(&self) -> bool {
        matches!(self.operation, Operation::DotProduct)
    }

    fn outputs(&self) -> usize {
        match (self.is_reduction(), self.n, self.out) {
            (true, 0, 0) => 0,
            (true, ..) => 1,
            (false, n, _) => n,
        }
    }

    /// Addresses and bytes of `a`, `b` and `out`, of a call without errors.
    pub fn arrays(&self) -> impl Iterator<Item = (usize, usize)> {
        [(self.a, 4 * self.n), (self.b, 4 * self.n), (self.out, 4 * self.outputs())].into_iter()
    }

    /// The bytes that `out` then begins with; None where nothing is stored.
    pub fn result(&self, memory: &Memory) -> Option<Vec<u8>> {
        if self.outputs() == 0 {
            return None;
        }
        let words = |address| {
            let bytes = if self.n == 0 { &[] } else { memory.expected(address, 4 * self.n) };
            bytes
                .chunks_exact(4)
                .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
        };
        let pairs = words(self.a).zip(words(self.b));
        let float = f32::from_bits;
        let result: Vec<u32> = match self.operation {
            Operation::VectorAdd => pairs.map(|(x, y)| stored(float(x) + float(y))).collect(),
            Operation::AddArrays => pairs.map(|(x, y)| x.wrapping_add(y)).collect(),
            Operation::DotProduct => {
                let wide = |word| f64::from(float(word));
                let terms: Vec<f64> = pairs.map(|(x, y)| wide(x) * wide(y)).collect();
                vec![stored(dot_in_order(&terms) as f32)]
            }
        };
        Some(result.into_iter().flat_map(u32::to_ne_bytes).collect())
    }
}

/// The errors that such a call has: it must return one of them, or success if there are none.
pub fn predicted_status(call: &Arguments, gpu_is_missing: bool) -> Vec<i32> {
    let Arguments { a, b, out, n, .. } = *call;
    let mut errors = Vec::new();
    let inputs = if n > 0 { vec![a, b] } else { Vec::new() };
    let outputs = if call.is_reduction() { usize::from(n > 0 || out != 0) } else { n };
    let arrays = inputs.iter().map(|input| (*input, n));
    for (address, n) in arrays.chain((outputs > 0).then_some((out, outputs))) {
        if address == 0 {
            errors.push(GPUVEC_ERROR_NULL);
        }
        if address % 4 != 0 {
            errors.push(GPUVEC_ERROR_MISALIGNED);
        }
        if is_too_long(address, n) {
            errors.push(GPUVEC_ERROR_SIZE);
        }
    }
    let shared = |input: usize| input != out && overlap((input, n), (out, outputs));
    if inputs.into_iter().any(shared) {
        errors.push(GPUVEC_ERROR_OVERLAP);
    }
    if n > 0 && gpu_is_missing {
        errors.push(GPUVEC_ERROR_NO_GPU);
    }
    errors.into_iter().map(|status| status as i32).collect()
}

fn bytes(n: usize) -> u128 {
    4 * n as u128
}

fn is_too_long(address: usize, n: usize) -> bool {
    bytes(n) > isize::MAX as u128 || address as u128 + bytes(n) > usize::MAX as u128
}

fn overlap((x, n): (usize, usize), (y, m): (usize, usize)) -> bool {
    (x as u128) < y as u128 + bytes(m) && (y as u128) < x as u128 + bytes(n)
}

fn stored(x: f32) -> u32 {
    if x.is_nan() { 0x7FC0_0000 } else { x.to_bits() }
}

/// Tiles of 4,096 terms, in each 128 lanes that are halved, then a binary tree over the tiles.
fn dot_in_order(terms: &[f64]) -> f64 {
    let mut sums: Vec<f64> = terms.chunks(4096).map(tile_sum).collect();
    while sums.len() > 1 {
        sums = sums.chunks(2).map(|pair| pair.iter().copied().reduce(Add::add).unwrap()).collect();
    }
    sums.first().copied().unwrap_or(0.0)
}

fn tile_sum(terms: &[f64]) -> f64 {
    let mut lanes = [0.0; 128];
    for (index, term) in terms.iter().enumerate() {
        lanes[index % 128] += term;
    }
    let mut lanes = lanes.to_vec();
    while lanes.len() > 1 {
        let (low, high) = lanes.split_at(lanes.len() / 2);
        lanes = low.iter().zip(high).map(|(x, y)| x + y).collect();
    }
    lanes[0]
}
