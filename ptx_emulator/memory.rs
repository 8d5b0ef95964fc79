//! What kernels load and store.

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
}

impl<'a> HostMemory<'a> {
    /// Puts an array at an address.
    pub fn add(&mut self, address: u64, bytes: &'a mut [u8]) {
        self.arrays.push((address, bytes));
    }

    fn reach(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], String> {
        let found = self.arrays.iter_mut().find_map(|(start, array)| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            array.get_mut(offset..offset.checked_add(bytes)?)
        });
        found.ok_or_else(|| format!("there is no array of {bytes} bytes at {address:#x}"))
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
