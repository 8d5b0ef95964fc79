//! Runs compiled programs over ranges of elements.

use super::compile::{Bits, BlockProgram, Buffer, Place, Step};
use super::loops::{Args, GRAIN, Operand};
use crate::call::Binding;
use gpuvec_expr::Type;
use std::collections::TryReserveError;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null;

/// A range of elements of a program's inputs and elementwise outputs.
pub(crate) struct Range<'a> {
    bindings: &'a [Binding],
    arrays: &'a [*const c_void],
    outputs: &'a [*mut c_void],
    /// A bit for each array, set if it is uniform: its first [`GRAIN`] elements stand for all.
    uniform: u64,
    len: usize,
    /// The most values that a reduction takes before the next one takes the same values.
    reduced_at_once: usize,
}

impl<'a> Range<'a> {
    /// The range of `len` elements. `arrays` has the address of the first element of each input that is an array.
    ///
    /// # Safety
    /// The bindings are as the program declares them. Each array has `len` aligned elements, or [`GRAIN`] if it is made
    /// [uniform](Range::with_uniform). Each elementwise output has room for `len` elements. It may be an array with
    /// elements of the same size, and overlaps no other array. No other thread writes to any of them.
    pub(crate) unsafe fn new(
        bindings: &'a [Binding], arrays: &'a [*const c_void], outputs: &'a [*mut c_void],
        len: usize,
    ) -> Self {
        Range { bindings, arrays, outputs, uniform: 0, len, reduced_at_once: usize::MAX }
    }

    /// Makes some arrays, a bit each, uniform: they have [`GRAIN`] equal elements, which stand for all. For programs
    /// without reductions.
    pub(crate) fn with_uniform(self, arrays: u64) -> Self {
        Range { uniform: arrays, ..self }
    }

    /// Lets the reductions take at most `values` values at a time, in turn. So values that several reductions take stay
    /// in a core's nearest cache.
    pub(crate) fn with_reduced_at_once(self, values: usize) -> Self {
        Range { reduced_at_once: values, ..self }
    }
}

/// The buffers of a thread, which it uses for any number of ranges.
pub(crate) struct Scratch {
    lines: Vec<MaybeUninit<Line>>,
    addresses: Vec<*mut u8>,
    /// A bit for each input of the range, set if it is uniform.
    uniform: u64,
    /// The elements of a block: no more than the ranges have.
    block: usize,
}

/// A line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "read and written through pointers")] [u8; 64]);

/// The bytes of a buffer for [`GRAIN`] elements.
const GRAIN_BYTES: usize = 8 * GRAIN;

impl BlockProgram {
    /// The buffers for ranges of at most `n` elements.
    pub(crate) fn scratch(&self, n: usize) -> Result<Scratch, TryReserveError> {
        let mut scratch = Scratch {
            lines: Vec::new(),
            addresses: Vec::new(),
            uniform: 0,
            block: self.block.min(n.div_ceil(GRAIN).max(1).saturating_mul(GRAIN)),
        };
        scratch.lines.try_reserve_exact(self.lines(scratch.block))?;
        scratch.addresses.try_reserve_exact(self.arrays.len() + self.buffers.len())?;
        Ok(scratch)
    }

    /// The cache lines of the buffers for blocks of a length, and of the buffers for the ends of arrays.
    fn lines(&self, block: usize) -> usize {
        let buffers = self.buffers.iter().map(|&buffer| self.buffer_bytes(buffer, block));
        let ends = self.arrays.len() * GRAIN_BYTES;
        (buffers.sum::<usize>() + ends).div_ceil(size_of::<Line>())
    }

    fn buffer_bytes(&self, buffer: Buffer, block: usize) -> usize {
        match buffer {
            Buffer::Uniform => GRAIN_BYTES,
            Buffer::Register => block * self.register_bytes,
        }
    }

    /// Computes the elementwise outputs of a range. `scratch` must be this program's.
    pub(crate) fn map(&self, scratch: &mut Scratch, range: Range<'_>) {
        self.run(scratch, range, &mut |_, _, _, _| ());
    }

    /// Runs all blocks of a range. Calls `each` for each reduction of a block with the reduction's number, the
    /// addresses of its values, their first element in the range, and their number.
    ///
    /// # Panics
    /// If the scratch memory is another program's, and too small.
    pub(super) fn run(
        &self, scratch: &mut Scratch, range: Range<'_>,
        each: &mut dyn FnMut(usize, [*const u8; 3], usize, usize),
    ) {
        let at_once = if self.reduced.len() > 1 { range.reduced_at_once } else { usize::MAX };
        let mut each = |addresses: &[*mut u8], start: usize, len: usize| {
            for first in (0..len).step_by(at_once) {
                for (number, reduced) in self.reduced.iter().enumerate() {
                    let address = |place: Place, ty: Type| {
                        let address = addresses[usize::from(place.index)];
                        address.wrapping_add(first * ty.bytes()).cast_const()
                    };
                    let [a, b] = reduced.places.map(|place| address(place, reduced.ty));
                    let keys = reduced.keys.map_or(null(), |(place, ty)| address(place, ty));
                    each(number, [a, b, keys], start + first, at_once.min(len - first));
                }
            }
        };
        debug_assert!(self.reduced.is_empty() || range.uniform == 0);
        let (n, block) = (range.len, scratch.block);
        let ends = self.address(scratch, &range);
        let (addresses, uniform) = (&mut scratch.addresses[..], scratch.uniform);
        // SAFETY: the uniform values' buffers have room for GRAIN elements.
        unsafe { self.run_steps(&self.uniform, addresses, uniform, GRAIN) };
        if self.steps.is_empty() {
            return each(addresses, 0, n);
        }
        let whole = n - n % GRAIN;
        let mut start = 0;
        while start < whole {
            let len = block.min(whole - start);
            // SAFETY: the arrays and outputs have `len` more elements, and registers have room for a block.
            unsafe { self.run_steps(&self.steps, addresses, uniform, len) };
            each(addresses, start, len);
            self.advance(addresses, uniform, len);
            start += len;
        }
        if n > whole {
            // The last elements are copied to buffers of GRAIN elements, over which the loops can run.
            for (i, bytes) in self.arrays.iter().enumerate() {
                let end = ends.wrapping_add(i * GRAIN_BYTES);
                if i < self.inputs {
                    // SAFETY: the array has `n - whole` more elements, for which its end buffer has room.
                    unsafe {
                        end.write_bytes(0, GRAIN_BYTES);
                        end.copy_from_nonoverlapping(addresses[i], (n - whole) * bytes);
                    }
                }
                addresses[i] = end;
            }
            // SAFETY: arrays and outputs are now buffers of GRAIN elements.
            unsafe { self.run_steps(&self.steps, addresses, uniform, GRAIN) };
            each(addresses, whole, n - whole);
            let (ends, sizes) = (&addresses[self.inputs..], &self.arrays[self.inputs..]);
            for ((out, from), bytes) in range.outputs.iter().zip(ends).zip(sizes) {
                let out = out.cast::<u8>().wrapping_add(whole * bytes);
                // SAFETY: the output has room for the last elements.
                unsafe { out.copy_from_nonoverlapping(*from, (n - whole) * bytes) };
            }
        }
    }

    /// Sets the addresses of all places, and writes the known values. Returns the address of the buffers for the ends
    /// of arrays.
    fn address(&self, scratch: &mut Scratch, range: &Range<'_>) -> *mut u8 {
        assert!(self.lines(scratch.block) <= scratch.lines.capacity());
        let mut next = scratch.lines.as_mut_ptr().cast::<u8>();
        let addresses = &mut scratch.addresses;
        addresses.clear();
        let mut arrays = range.arrays.iter().enumerate();
        scratch.uniform = 0;
        addresses.extend(range.bindings.iter().enumerate().map(|(input, binding)| match binding {
            Binding::Array => arrays.next().map_or(next, |(number, array)| {
                scratch.uniform |= (range.uniform >> number & 1) << input;
                array.cast_mut().cast()
            }),
            Binding::Scalar(_) | Binding::Unused => next,
        }));
        assert_eq!(range.outputs.len(), self.arrays.len() - self.inputs);
        addresses.extend(range.outputs.iter().map(|out| out.cast::<u8>()));
        for &buffer in &self.buffers {
            addresses.push(next);
            next = next.wrapping_add(self.buffer_bytes(buffer, scratch.block));
        }
        for known in &self.known {
            let bits = match known.bits {
                Bits::Constant(bits) => bits,
                Bits::Scalar(input) => match range.bindings[input] {
                    Binding::Scalar(bits) => bits,
                    Binding::Unused => 0,
                    Binding::Array => unreachable!("a scalar is bound to a value"),
                },
            };
            let buffer = addresses[usize::from(known.place.index)];
            // SAFETY: by the assertion, the lines have room for all buffers, and this one has room for GRAIN values,
            // and is aligned as they are.
            unsafe {
                match known.bytes {
                    1 => buffer.write_bytes(bits as u8, GRAIN),
                    2 => buffer.cast::<[u16; GRAIN]>().write([bits as u16; GRAIN]),
                    4 => buffer.cast::<[u32; GRAIN]>().write([bits as u32; GRAIN]),
                    _ => buffer.cast::<[u64; GRAIN]>().write([bits; GRAIN]),
                }
            }
        }
        next
    }

    /// Advances the addresses of arrays and outputs by some elements, except for uniform arrays.
    fn advance(&self, addresses: &mut [*mut u8], uniform: u64, elements: usize) {
        for (number, (address, bytes)) in addresses.iter_mut().zip(&self.arrays).enumerate() {
            if uniform >> number & 1 == 0 {
                *address = address.wrapping_add(bytes * elements);
            }
        }
    }

    /// Runs steps over some elements.
    ///
    /// # Safety
    /// As for [`Args::new`], of each step.
    unsafe fn run_steps(&self, steps: &[Step], addresses: &[*mut u8], uniform: u64, len: usize) {
        let is_uniform = |place: Place| {
            place.is_uniform
                || uniform.checked_shr(place.index.into()).is_some_and(|bits| bits & 1 != 0)
        };
        let operand = |place: Place| Operand {
            pointer: addresses[usize::from(place.index)],
            mask: usize::from(is_uniform(place)).wrapping_sub(1),
        };
        for step in steps {
            let index = usize::from(step.out.index);
            let operands = step.operands.map(operand);
            let is_output = (self.inputs..self.arrays.len()).contains(&index);
            // SAFETY: the caller promises the operands.
            let arguments = unsafe { Args::new(operands, addresses[index], len, is_output) };
            (step.run)(self.isa, &arguments);
        }
    }
}
