//! Says whether the host has memory left for small allocations that can only fail by abort.

/// Bytes that the allocations after such a question may need together, with room to spare.
pub(crate) const NEEDED_BYTES: usize = 64 << 10;

/// Says whether they can be had. Asked before threads are started and before values are made once: those
/// allocate inside other crates, which abort the process where memory has run out.
pub(crate) fn is_left() -> bool {
    Vec::<u8>::new().try_reserve_exact(NEEDED_BYTES).is_ok()
}
