//! Attributes of addresses: the memory that they are in.

use super::{call, put};
use crate::memory::{self, Block, Kind};
use crate::{Code, INVALID_CONTEXT, INVALID_VALUE, context};
use std::ffi::{c_int, c_uint, c_void};

const MEMORY_TYPE: c_uint = 2;
const DEVICE_POINTER: c_uint = 3;
const IS_MANAGED: c_uint = 8;
const DEVICE_ORDINAL: c_uint = 9;
const RANGE_START: c_uint = 11;
const RANGE_BYTES: c_uint = 12;
const NO_ORDINAL: c_int = -2;

/// Writes one attribute of an address; like the driver, writes no range for an unknown address.
///
/// # Safety
/// `value` must be writable for the attribute's type.
unsafe fn put_attribute(
    value: *mut c_void, attribute: c_uint, address: u64, block: Option<Block>,
) -> Result<(), Code> {
    let is_host = block.is_some_and(|block| block.kind.is_host());
    let is_managed = block.is_some_and(|block| block.kind == Kind::Managed);
    let memory_type: c_uint = if is_host { 1 } else { 2 };
    // SAFETY: this function's promise, in each arm.
    unsafe {
        match (attribute, block) {
            (MEMORY_TYPE, None) => put(value.cast::<c_uint>(), 0),
            (MEMORY_TYPE, Some(_)) => put(value.cast(), memory_type),
            (IS_MANAGED, _) => put(value.cast::<u8>(), is_managed.into()),
            (DEVICE_ORDINAL, None) => put(value.cast(), NO_ORDINAL),
            (DEVICE_ORDINAL, Some(block)) => put(value.cast(), block.ordinal as c_int),
            (DEVICE_POINTER, Some(_)) if context::current() != 0 => put(value.cast(), address),
            (DEVICE_POINTER, Some(_)) => return Err(INVALID_CONTEXT),
            (DEVICE_POINTER, None) => return Err(INVALID_VALUE),
            (RANGE_START, Some(block)) => put(value.cast(), block.start as u64),
            (RANGE_BYTES, Some(block)) => put(value.cast(), block.bytes),
            (RANGE_START | RANGE_BYTES, None) => {}
            _ => return Err(INVALID_VALUE),
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(
    value: *mut c_void, attribute: c_uint, address: u64,
) -> Code {
    call("cuPointerGetAttribute", |_| {
        // SAFETY: the caller's promise.
        unsafe { put_attribute(value, attribute, address, memory::find(address as usize)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint, attributes: *const c_uint, values: *const *mut c_void, address: u64,
) -> Code {
    call("cuPointerGetAttributes", |_| {
        let block = memory::find(address as usize);
        for i in 0..count as usize {
            // SAFETY: the caller promises `count` of both. A missing attribute is not an error of
            // the call.
            let _ = unsafe {
                put_attribute(values.add(i).read(), attributes.add(i).read(), address, block)
            };
        }
        Ok(())
    })
}
