//! Bytes that may be the state of an accumulator: damaged ones are refused, and an accepted state is
//! one that adds up.

#![no_main]

use gpuvec::abi::accumulator::*;
use gpuvec::abi::errors::gpuvec_last_status;
use gpuvec::gpuvec_status::*;
use libfuzzer_sys::fuzz_target;

const G: u64 = 0x9E37_79B9_7F4A_7C15;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // With the right first words and checksum most of the checks behind them are reached.
    let mut state = bytes.to_vec();
    state.truncate(state.len() / 8 * 8);
    if let [kind, states, ..] = bytes
        && state.len() >= 24
    {
        let (kind, states) = (u64::from(kind % 5), u64::from(states % 3));
        state[..8].copy_from_slice(&(states * (0x7667 << 16 | 1 << 8 | kind)).to_le_bytes());
        state[8..16].copy_from_slice(&states.to_le_bytes());
        let last = state.len() - 8;
        let words = state[..last].as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
        let checksum = words.fold(0, |sum: u64, word| sum.wrapping_add(word).wrapping_mul(G));
        state[last..].copy_from_slice(&checksum.to_le_bytes());
        read(&state);
    }
});

/// Reads a state; writes what was accepted, which then has one form.
fn read(bytes: &[u8]) {
    // SAFETY: a slice.
    let accumulator = unsafe { gpuvec_accumulator_deserialize(bytes.as_ptr().cast(), bytes.len()) };
    if accumulator.is_null() {
        let refused = [GPUVEC_ERROR_STATE as i32, GPUVEC_ERROR_SIZE as i32];
        assert!(refused.contains(&gpuvec_last_status()));
        return;
    }
    let mut value = [0_u8; 8];
    // SAFETY: there is room for a value of either type.
    assert_eq!(unsafe { gpuvec_accumulator_value(accumulator, value.as_mut_ptr().cast()) }, 0);
    let written = serialized(accumulator);
    // SAFETY: a slice.
    let again = unsafe { gpuvec_accumulator_deserialize(written.as_ptr().cast(), written.len()) };
    assert_eq!(serialized(again), written);
    let status = gpuvec_accumulator_merge(accumulator, again);
    assert!([0, GPUVEC_ERROR_SIZE as i32].contains(&status), "{status}");
    for handle in [accumulator, again] {
        assert_eq!(gpuvec_accumulator_destroy(handle), 0);
        assert_eq!(gpuvec_accumulator_destroy(handle), GPUVEC_ERROR_HANDLE as i32);
    }
}

/// The bytes of an accumulator of any kind.
fn serialized(accumulator: *mut gpuvec::gpuvec_accumulator) -> Vec<u8> {
    let written = (1..=4).find_map(|kind| {
        let mut bytes = vec![0_u8; gpuvec_accumulator_bytes(kind)];
        let room = bytes.as_mut_ptr().cast();
        // SAFETY: there is as much room as is said.
        let status = unsafe { gpuvec_accumulator_serialize(accumulator, room, bytes.len()) };
        (status == 0).then_some(bytes)
    });
    written.expect("one kind has the length")
}
