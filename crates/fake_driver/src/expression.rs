//! The kernels of expressions: PTX that the emulator runs.

use crate::codes::{Code, ILLEGAL_ADDRESS, INVALID_IMAGE, MISALIGNED_ADDRESS};
use crate::faults::violate;
use crate::memory::{Block, find, reach_by_kernel};
use crate::timing::{self, Direction};
use gpuvec_emulator::{Fault, Kernel, Memory};
use std::sync::{Mutex, PoisonError};

/// Bytes of a reduction's scratch memory, which are zero between kernels.
const SCRATCH_BYTES: usize = 65_536;

/// Reads the kernel of a text.
pub(crate) fn load(text: &str) -> Result<Kernel, Code> {
    Kernel::parse(text).map_err(|why| {
        violate(&format!("a kernel's PTX: {why}"));
        INVALID_IMAGE
    })
}

/// Runs a kernel, and returns the address of the completion flags.
pub(crate) fn run(kernel: &Kernel, parameters: &[u64], blocks: usize) -> Result<u64, Code> {
    let mut parameters = parameters.to_vec();
    let (mut memory, count) = (Reached::default(), parameters.len());
    // Behind the inputs: the output, the number of elements, the flags, and three more for reductions. Those
    // along axes have no flags. Behind the scratch memory they have a word and the partition's three. Those by key have
    // neither.
    let (flags, scratch) = match (kernel.reduction(), kernel.is_along_axes()) {
        _ if kernel.is_by_key() => (None, None),
        (None, _) => (Some(1), None),
        (_, false) => (Some(4), Some(parameters[count - 3])),
        (_, true) => (None, Some(parameters[count - 5])),
    };
    let flags = flags.map_or(0, |place| std::mem::take(&mut parameters[count - place]));
    // The emulator's accesses to a table are not atomic, and several streams may add to it.
    static TABLES: Mutex<()> = Mutex::new(());
    let _adds_alone =
        kernel.is_by_key().then(|| TABLES.lock().unwrap_or_else(PoisonError::into_inner));
    let outcome = scratch
        .map_or(Ok(()), |scratch| check_scratch(scratch, &mut memory))
        .and_then(|()| kernel.run(&parameters, blocks as u32, &mut memory));
    outcome.map_err(|fault| {
        violate(&format!("a kernel's {fault}"));
        match fault {
            Fault::Misaligned(_) => MISALIGNED_ADDRESS,
            Fault::Other(_) => ILLEGAL_ADDRESS,
        }
    })?;
    Ok(flags)
}

/// Checks that a reduction's scratch memory is there, and zero.
fn check_scratch(scratch: u64, memory: &mut Reached) -> Result<(), Fault> {
    let place = memory.place(Direction::In, scratch, SCRATCH_BYTES)?.cast_const();
    // SAFETY: `place` found the bytes, and no other kernel uses a stream's scratch memory.
    let bytes = unsafe { std::slice::from_raw_parts(place, SCRATCH_BYTES) };
    match bytes.iter().all(|&byte| byte == 0) {
        true => Ok(()),
        false => Err("scratch memory is not zero".into()),
    }
}

/// The memory that a kernel reaches, and the blocks of it that it has reached.
#[derive(Default)]
struct Reached {
    blocks: Vec<(Block, *mut u8)>,
}

impl Reached {
    fn place(
        &mut self, direction: Direction, address: u64, bytes: usize,
    ) -> Result<*mut u8, String> {
        let address = address as usize;
        let known = self.blocks.iter().find_map(|(block, at)| {
            let offset = address.checked_sub(block.start)?;
            // The block's bytes are consecutive.
            (offset + bytes <= block.bytes).then(|| (block.kind, at.wrapping_add(offset)))
        });
        if let Some((kind, place)) = known {
            if kind.is_host() {
                timing::send(direction, bytes);
            }
            return Ok(place);
        }
        timing::access(direction, address, bytes);
        if let Some(block) = find(address)
            && let Some(at) = reach_by_kernel(block.start, block.bytes)
        {
            self.blocks.push((block, at));
        }
        let place = reach_by_kernel(address, bytes);
        place.ok_or_else(|| format!("access at {address:#x}: there are no {bytes} bytes"))
    }
}

impl Memory for Reached {
    fn load(&mut self, address: u64, bytes: usize) -> Result<u64, String> {
        let place = self.place(Direction::In, address, bytes)?;
        let mut value = [0; 8];
        // SAFETY: `place` found the bytes, at most eight. Another thread can use them only if the host
        // program has a race, which the tests are to detect.
        unsafe { place.copy_to_nonoverlapping(value.as_mut_ptr(), bytes) };
        Ok(u64::from_le_bytes(value))
    }

    fn store(&mut self, address: u64, bytes: usize, value: u64) -> Result<(), String> {
        let place = self.place(Direction::Out, address, bytes)?;
        // SAFETY: as in `load`, `place` found the bytes, and only a race of the host program could use them.
        unsafe { place.copy_from_nonoverlapping(value.to_le_bytes().as_ptr(), bytes) };
        Ok(())
    }
}
