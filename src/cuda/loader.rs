//! Finds the driver's library, if another library has loaded it into this process.
//!
//! With placement `cpu` the library does not open the driver. But the caller may pass another CUDA library's memory,
//! and only the driver knows its kind. The search must be cheap, since any call may be the first one after another
//! library was loaded. It must not wait for the dynamic loader's own lock, which a thread holds while it runs
//! constructors.

use crate::process::fork;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The driver's soname: only the dynamic linker's search path decides which file it is.
pub(super) const DRIVER: &CStr = c"libcuda.so.1";

/// The driver's library, once it is found or opened. It is never closed.
static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The number of libraries that the process had ever loaded when a search last found no driver.
static SEARCHED: AtomicU64 = AtomicU64::new(0);

/// Stores the driver's library for [`known`].
pub(super) fn keep(library: *mut c_void) {
    LIBRARY.store(library, Ordering::Release);
}

/// Returns the driver's library, if it was found or opened.
pub(super) fn known() -> Option<*mut c_void> {
    Some(LIBRARY.load(Ordering::Acquire)).filter(|library| !library.is_null())
}

/// Returns the driver's library, if any library has loaded it into the process.
pub(super) fn loaded() -> Option<*mut c_void> {
    known().or_else(search)
}

fn search() -> Option<*mut c_void> {
    // Miri loads no libraries.
    if cfg!(miri) {
        return None;
    }
    let searched = SEARCHED.load(Ordering::Relaxed);
    let mut search = Search { searched, loaded: searched, is_found: false };
    // A child that is forked during the search would find the loader's lock taken.
    // SAFETY: `visit` is called with `search`, which outlives the call, for each library in turn.
    fork::with_lock(|| unsafe {
        libc::dl_iterate_phdr(Some(Search::visit), (&raw mut search).cast());
    });
    if !search.is_found {
        if search.loaded != searched {
            SEARCHED.store(search.loaded, Ordering::Relaxed);
        }
        return None;
    }
    // SAFETY: the name is a C string; the library is loaded already, so none of its code runs.
    let library = unsafe { libc::dlopen(DRIVER.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    keep(library);
    Some(library)
}

/// A search through the libraries of the process.
struct Search {
    /// The number of libraries that the process had ever loaded at the last search, and the number now.
    searched: u64,
    loaded: u64,
    is_found: bool,
}

impl Search {
    /// Looks at one library; ends the search if it is the driver, or if no library is new.
    unsafe extern "C" fn visit(
        library: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a library that lasts as long as this call, and the search, which nothing else uses
        // meanwhile.
        let (library, search) = unsafe { (&*library, &mut *search.cast::<Search>()) };
        search.loaded = library.dlpi_adds;
        if search.loaded == search.searched {
            return 1;
        }
        // SAFETY: the name is NULL, or a C string that lasts as long as this call.
        let path = unsafe { library.dlpi_name.as_ref().map(|path| CStr::from_ptr(path)) };
        search.is_found = path.is_some_and(is_driver);
        c_int::from(search.is_found)
    }
}

/// True if a library's path ends in the driver's name, with or without a version.
fn is_driver(path: &CStr) -> bool {
    const NAME: &[u8] = b"libcuda.so";
    path.to_bytes().rsplit(|byte| *byte == b'/').next().is_some_and(|name| name.starts_with(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_known_by_its_name() {
        assert!(is_driver(c"libcuda.so.1"));
        assert!(is_driver(c"/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"));
        assert!(!is_driver(c"/usr/local/libcuda.so/libcudart.so.12"));
        assert!(!is_driver(c""));
    }
}
