//! Says whether the host has memory left for small allocations that can only fail by abort.

/// The number of bytes that the allocations after the question may need together, with room to spare.
pub(crate) const NEEDED_BYTES: usize = 64 << 10;

/// Says whether [`NEEDED_BYTES`] can be allocated. Callers ask before they start threads or make a
/// value that lasts: both allocate inside other crates, which abort the process if memory has run out.
pub(crate) fn is_left() -> bool {
    is_left_for(NEEDED_BYTES)
}

/// Says whether this number of bytes can be allocated.
pub(crate) fn is_left_for(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}
