//! The form of the driver's functions. Each module defines the functions of its objects, under the driver's names and with
//! the driver's signatures.

use crate::codes::{Code, SUCCESS};
use crate::faults::begin;

/// Defines functions of the driver. A function with a result has a first parameter, the address to which the result is
/// written. In a body, `?` returns a code. `|fails|` names the code with which the call's queued work is to fail, if any.
///
/// Each function trusts its caller as the driver does: pointers are valid as the CUDA driver API's reference requires.
macro_rules! driver_functions {
    (@ignored) => {
        _
    };
    (@ignored $fails:ident) => {
        $fails
    };
    ($($(#[doc = $_doc:literal])* fn $name:ident($($parameter:ident: $ty:ty),* $(,)?)
       $(-> $result:ty)? $(|$fails:ident|)? $body:block)*) => {
        $(#[unsafe(no_mangle)]
        unsafe extern "C" fn $name($(to: *mut $result,)? $($parameter: $ty),*) -> $crate::codes::Code {
            $crate::calls::call(stringify!($name), |driver_functions!(@ignored $($fails)?)| {
                let _result = $body;
                $(
                    let place: *mut $result = to;
                    // SAFETY: the caller promises a writable place for the result.
                    unsafe { place.write(_result) };
                )?
                Ok(())
            })
        })*
    };
}
pub(crate) use driver_functions;

/// Does a call's work, unless the call is to fail. The work receives the code with which its queued work is to fail, if
/// any.
pub(crate) fn call(
    name: &'static str, work: impl FnOnce(Option<Code>) -> Result<(), Code>,
) -> Code {
    begin(name).and_then(work).err().unwrap_or(SUCCESS)
}

/// Waits even if the call is to fail: no work may use the caller's memory afterwards.
pub(crate) fn call_that_waits(name: &'static str, wait: impl FnOnce() -> Result<(), Code>) -> Code {
    let begun = begin(name);
    let waited = wait();
    begun.map(|_| ()).and(waited).err().unwrap_or(SUCCESS)
}
