//! What every function promises whatever it computes: statuses and their texts, what is left
//! alone after an error, and what the library says of the last call.

mod common;

use common::{Array, Operation, add_f32, add_i32, dot_f32, last_error, last_run, with_placement};
use gpuvec::abi::errors::*;
use gpuvec::abi::library::*;
use gpuvec::abi::memory::{pinned_alloc, pinned_free};
use gpuvec::gpuvec_status::{self, *};
use gpuvec::record::Run;
use gpuvec::{Placement, STATUSES};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

const OPERATIONS: [Operation; 3] = [add_f32, add_i32, dot_f32];
const NAMES: [&str; 3] = ["a", "b", "out"];
const N: usize = 100;

/// Three arrays of [`N`] elements.
struct Arrays([Array; 3]);

impl Arrays {
    fn new() -> Self {
        Arrays(std::array::from_fn(|i| Array::new(&[i as u32 + 1; N], 0, false)))
    }

    fn pointers(&mut self) -> [*mut u32; 3] {
        let [a, b, out] = &mut self.0;
        [a.pointer(), b.pointer(), out.pointer()]
    }

    fn are_untouched(&self) -> bool {
        let same = |(i, array): (usize, &Array)| array.content() == [i as u32 + 1; N];
        self.0.iter().enumerate().all(same) && self.0.iter().all(Array::guards_are_whole)
    }
}

fn call(operation: Operation, [a, b, out]: [*mut u32; 3], n: usize) -> i32 {
    // SAFETY: every test here passes arrays that hold `n` elements, or what the library refuses
    // before it follows a pointer.
    unsafe { operation(a, b, out, n) }
}

/// A call that must fail so, say so, and touch nothing.
fn refused(
    operation: Operation,
    status: gpuvec_status,
    texts: &[&str],
    change: impl Fn([*mut u32; 3]) -> ([*mut u32; 3], usize),
) {
    let mut arrays = Arrays::new();
    let (pointers, n) = change(arrays.pointers());
    assert_eq!(call(operation, pointers, n), status as i32, "{}", last_error());
    for text in texts {
        assert!(last_error().contains(text), "'{text}' is not in '{}'", last_error());
    }
    assert!(arrays.are_untouched());
    assert_eq!(last_run(), Run::default());
}

fn text(string: *const c_char) -> String {
    assert!(!string.is_null());
    // SAFETY: the library's texts are C strings that outlive this function.
    unsafe { CStr::from_ptr(string) }.to_str().expect("UTF-8").to_owned()
}

/// Leaves an error in this thread's last error.
fn fail() {
    assert_eq!(call(add_f32, [ptr::null_mut(); 3], 1), GPUVEC_ERROR_NULL as i32);
}

fn succeed() {
    assert_eq!(call(add_f32, Arrays::new().pointers(), N), 0, "{}", last_error());
}

#[test]
fn null_is_refused_and_named() {
    for operation in OPERATIONS {
        for (i, name) in NAMES.into_iter().enumerate() {
            refused(operation, GPUVEC_ERROR_NULL, &[&format!("{name} is NULL")], |mut pointers| {
                pointers[i] = ptr::null_mut();
                (pointers, N)
            });
        }
    }
    refused(add_f32, GPUVEC_ERROR_NULL, &["its length is 100"], |[a, _, out]| {
        ([a, ptr::null_mut(), out], N)
    });
}

#[test]
fn misaligned_pointers_are_refused_and_named() {
    for operation in OPERATIONS {
        for (i, name) in NAMES.into_iter().enumerate() {
            for bytes in 1..4 {
                let texts = [&format!("{name} is 0x"), "multiple of 4"];
                refused(operation, GPUVEC_ERROR_MISALIGNED, &texts, |mut pointers| {
                    pointers[i] = pointers[i].wrapping_byte_add(bytes);
                    (pointers, N - 1)
                });
            }
        }
    }
    let mut arrays = Arrays::new();
    let [a, b, out] = arrays.pointers();
    let b = b.wrapping_byte_add(2);
    call(add_f32, [a, b, out], 1);
    assert!(last_error().contains(&format!("b is {b:p}")), "{}", last_error());
}

#[test]
fn lengths_past_the_address_space_are_refused_and_named() {
    let most = isize::MAX as usize / 4;
    for operation in OPERATIONS {
        for n in [most + 1, most, 1 << 62, 1 << 63, usize::MAX] {
            // `most` elements hold fewer bytes than isize::MAX, but run past the end from here.
            let far = |_| ([ptr::without_provenance_mut(usize::MAX - 4095); 3], n);
            refused(operation, GPUVEC_ERROR_SIZE, &[&format!("n is {n}"), "4 bytes"], far);
        }
    }
}

#[test]
fn partial_overlap_is_refused_and_named() {
    for operation in [add_f32, add_i32] {
        for elements in [-1, 1, N as isize - 2, 2 - N as isize] {
            for (i, name) in NAMES.into_iter().take(2).enumerate() {
                let texts = [&*format!("out partly overlaps {name}")];
                refused(operation, GPUVEC_ERROR_OVERLAP, &texts, |pointers| {
                    let [a, b, _] = pointers;
                    ([a, b, pointers[i].wrapping_offset(elements)], N - 1)
                });
            }
        }
    }
    for (i, name) in NAMES.into_iter().take(2).enumerate() {
        for element in [1, N - 1] {
            let texts = [&*format!("out partly overlaps {name}")];
            refused(dot_f32, GPUVEC_ERROR_OVERLAP, &texts, |pointers| {
                let [a, b, _] = pointers;
                ([a, b, pointers[i].wrapping_add(element)], N)
            });
        }
    }
}

#[test]
fn neighbours_do_not_overlap() {
    with_placement(Placement::Auto, || {
        let half = N / 2;
        let mut arrays = Arrays::new();
        let [a, b, _] = arrays.pointers();
        assert_eq!(call(add_i32, [a, b, a.wrapping_add(half)], half), 0, "{}", last_error());
        assert_eq!(arrays.0[0].content(), [[1; N / 2], [3; N / 2]].concat());
        let [a, b, _] = arrays.pointers();
        assert_eq!(call(dot_f32, [a, b, b.wrapping_add(half)], half), 0, "{}", last_error());
    });
}

#[test]
fn nothing_to_do_succeeds_and_touches_no_input() {
    let nowhere: *mut u32 = ptr::without_provenance_mut(3);
    for placement in common::placements() {
        with_placement(*placement, || {
            let operations: [(Operation, u32); 3] = [(add_f32, 3), (add_i32, 3), (dot_f32, 0)];
            for (operation, first) in operations {
                succeed();
                assert_eq!(call(operation, [ptr::null_mut(); 3], 0), 0, "{}", last_error());
                assert_eq!(last_run(), Run::default());
                let mut arrays = Arrays::new();
                let [_, _, out] = arrays.pointers();
                assert_eq!(call(operation, [nowhere, nowhere, out], 0), 0, "{}", last_error());
                assert_eq!(arrays.0[2].content()[0], first);
                assert_eq!(arrays.0[2].content()[1..], [3; N - 1]);
            }
        });
    }
}

#[test]
fn a_success_clears_the_last_error() {
    with_placement(Placement::Auto, || {
        fail();
        assert_ne!(last_error(), "");
        succeed();
        assert_eq!(last_error(), "");
        fail();
        // SAFETY: NULL is fine.
        assert_eq!(unsafe { pinned_free(ptr::null_mut()) }, 0);
        assert_eq!(last_error(), "");
    });
}

#[test]
fn questions_leave_the_last_error() {
    fail();
    let error = last_error();
    gpuvec_version();
    gpuvec_abi_version();
    gpuvec_status_string(GPUVEC_ERROR_NULL as i32);
    gpuvec_why_cpu();
    gpuvec_device_count();
    last_run();
    // SAFETY: NULL is refused.
    let status = unsafe { gpuvec_last_run(ptr::null_mut(), size_of::<Run>()) };
    assert_eq!(status, GPUVEC_ERROR_NULL as i32);
    assert_eq!(last_error(), error);
}

#[test]
fn every_thread_has_its_own_last_error() {
    fail();
    let error = last_error();
    let other = std::thread::spawn(|| {
        let before = last_error();
        assert_eq!(call(add_f32, [ptr::dangling_mut(); 3], usize::MAX), GPUVEC_ERROR_SIZE as i32);
        before
    });
    assert_eq!(other.join().expect("the thread's checks hold"), "");
    assert_eq!(last_error(), error);
}

#[test]
fn pinned_free_takes_each_pointer_once() {
    let free = |pointer: *mut c_void| {
        // SAFETY: nobody uses the memory; what is not pinned_alloc's is refused.
        unsafe { pinned_free(pointer) }
    };
    let refused = |pointer: *mut c_void| {
        assert_eq!(free(pointer), GPUVEC_ERROR_POINTER as i32);
        assert!(last_error().contains(&format!("ptr is {pointer:p}")), "{}", last_error());
    };
    with_placement(Placement::Auto, || {
        let memory = pinned_alloc(10_000);
        assert!(!memory.is_null(), "{}", last_error());
        refused(memory.wrapping_byte_add(4096));
        refused((&raw mut *Box::new(0u8)).cast());
        assert_eq!(free(memory), 0, "{}", last_error());
        refused(memory);
        assert_eq!(free(ptr::null_mut()), 0);
    });
}

#[test]
fn pinned_alloc_gives_whole_pages_or_says_why_not() {
    for placement in common::placements() {
        with_placement(*placement, || {
            for bytes in [0, 1, 4096, 4097] {
                let memory: *mut u8 = pinned_alloc(bytes).cast();
                assert!(!memory.is_null(), "{}", last_error());
                assert_eq!(memory.addr() % 4096, 0);
                let pages = bytes.div_ceil(4096).max(1);
                // SAFETY: the header promises whole pages, at least one.
                unsafe { memory.write_bytes(7, pages * 4096) };
                // SAFETY: allocated above, used no more.
                assert_eq!(unsafe { pinned_free(memory.cast()) }, 0, "{}", last_error());
            }
            for bytes in [usize::MAX, isize::MAX as usize] {
                assert!(pinned_alloc(bytes).is_null());
                assert!(last_error().contains(&format!("bytes is {bytes}")), "{}", last_error());
            }
            assert!(pinned_alloc(1 << 60).is_null());
            assert_ne!(last_error(), "");
        });
    }
}

#[test]
fn every_status_has_its_name_and_meaning() {
    for status in STATUSES {
        let text = text(gpuvec_status_string(*status as i32));
        assert!(text.starts_with(&format!("{status:?}: ")), "{text}");
    }
    for number in [-1, 2, 100, 902, i32::MIN, i32::MAX] {
        assert!(text(gpuvec_status_string(number)).contains("not a status"));
    }
}

#[test]
fn the_placement_is_one_of_four() {
    with_placement(Placement::Cpu, || {
        for wrong in [-1, 4, i32::MAX] {
            assert_eq!(gpuvec_set_placement(wrong), GPUVEC_ERROR_VALUE as i32);
            assert!(last_error().contains(&format!("placement is {wrong}")), "{}", last_error());
            assert_eq!(gpuvec_get_placement(), Placement::Cpu as i32);
        }
        assert!(text(gpuvec_why_cpu()).contains("placement cpu"));
    });
}

#[test]
fn devices_count_from_0() {
    let count = gpuvec_device_count();
    for device in 0..count {
        assert_ne!(text(gpuvec_device_name(device)), "");
    }
    for wrong in [-1, count, i32::MAX] {
        assert!(gpuvec_device_name(wrong).is_null());
        assert_ne!(last_error(), "");
    }
}
