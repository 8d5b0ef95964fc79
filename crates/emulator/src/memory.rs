//! The memory that kernels load from and store to.

/// Memory by its addresses. Values are little-endian, in the low end.
pub trait Memory {
    /// Loads bytes, at most eight.
    fn load(&mut self, address: u64, bytes: usize) -> Result<u64, String>;
    /// Stores the low bytes, at most eight.
    fn store(&mut self, address: u64, bytes: usize, value: u64) -> Result<(), String>;
}

/// Arrays at given addresses.
#[derive(Default)]
pub struct HostMemory<'a> {
    arrays: Vec<(u64, &'a mut [u8])>,
    /// The array that was reached last.
    last: usize,
}

impl<'a> HostMemory<'a> {
    /// Puts an array at an address.
    pub fn add(&mut self, address: u64, bytes: &'a mut [u8]) {
        self.arrays.push((address, bytes));
    }

    fn reach(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], String> {
        let place = |(start, array): &(u64, &mut [u8])| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            let end = offset.checked_add(bytes)?;
            (end <= array.len()).then_some(offset..end)
        };
        let known = self.arrays.get(self.last).and_then(place);
        let found = known.map(|range| (self.last, range)).or_else(|| {
            self.arrays.iter().enumerate().find_map(|(i, array)| Some((i, place(array)?)))
        });
        let (number, range) =
            found.ok_or_else(|| format!("there is no array of {bytes} bytes at {address:#x}"))?;
        self.last = number;
        Ok(&mut self.arrays[number].1[range])
    }
}

impl Memory for HostMemory<'_> {
    fn load(&mut self, address: u64, bytes: usize) -> Result<u64, String> {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(self.reach(address, bytes)?);
        Ok(u64::from_le_bytes(value))
    }

    fn store(&mut self, address: u64, bytes: usize, value: u64) -> Result<(), String> {
        self.reach(address, bytes)?.copy_from_slice(&value.to_le_bytes()[..bytes]);
        Ok(())
    }
}

/// A block's or a thread's own memory, which begins at address 0.
impl Memory for [u8] {
    fn load(&mut self, address: u64, bytes: usize) -> Result<u64, String> {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(part(self, address, bytes)?);
        Ok(u64::from_le_bytes(value))
    }

    fn store(&mut self, address: u64, bytes: usize, value: u64) -> Result<(), String> {
        part(self, address, bytes)?.copy_from_slice(&value.to_le_bytes()[..bytes]);
        Ok(())
    }
}

fn part(memory: &mut [u8], address: u64, bytes: usize) -> Result<&mut [u8], String> {
    let part = usize::try_from(address)
        .ok()
        .and_then(|start| memory.get_mut(start..start.checked_add(bytes)?));
    part.ok_or_else(|| {
        format!("there is no shared or local memory of {bytes} bytes at {address:#x}")
    })
}
