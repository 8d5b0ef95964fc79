//! Whether the host has memory left for small allocations that cannot fail but by abort.

/// What the allocations that follow a look may need together, with room to spare.
pub(crate) const NEEDED_BYTES: usize = 64 << 10;

/// Whether they can be had. Asked before handing work to threads and before what is made once:
/// those allocate inside other crates, which abort the process where memory has run out.
pub(crate) fn is_left() -> bool {
    Vec::<u8>::new().try_reserve_exact(NEEDED_BYTES).is_ok()
}
