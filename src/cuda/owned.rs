//! Objects of the driver that this library owns: streams, events, memory, modules. Memory counts for its device in
//! gpuvec_memory until the driver has freed it.
//!
//! If the driver refuses to destroy a stream, an event or memory, a later call tries again: its owner is gone, and
//! could not handle an error. src/cuda/modules.rs unloads modules.

use super::device_cache;
use super::driver::{
    CUdeviceptr, CUevent, CUmodule, CUstream, Code, cuEventCreate, cuEventDestroy_v2,
    cuMemAlloc_v2, cuMemFree_v2, cuMemFreeHost, cuMemHostAlloc, cuModuleUnload,
    cuStreamCreateWithPriority, cuStreamDestroy_v2,
};
use super::memory_stats::{self, Kind};
use crate::error::Error;
use std::collections::VecDeque;
use std::ffi::{c_uint, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A stream of the device of the current context. It is ordered with work on the legacy default stream, as callers
/// expect of a CUDA library.
#[derive(Debug)]
pub(super) struct OwnedStream(CUstream);

/// An event of the device of the current context.
#[derive(Debug)]
pub(super) struct OwnedEvent(CUevent);

/// Memory of a device.
#[derive(Debug)]
pub(super) struct OwnedMemory {
    address: CUdeviceptr,
    bytes: usize,
    ordinal: usize,
}

/// Page-locked host memory that every device can access, allocated in the context of one.
#[derive(Debug)]
pub(super) struct OwnedPinned {
    address: NonNull<c_void>,
    bytes: usize,
    ordinal: usize,
}

/// A module of the device of the current context.
#[derive(Debug)]
pub(super) struct OwnedModule(CUmodule);

// SAFETY: the CUDA driver API lets any thread use a module.
unsafe impl Send for OwnedModule {}
// SAFETY: the CUDA driver API lets any number of threads use a module.
unsafe impl Sync for OwnedModule {}
// SAFETY: any thread may use the memory, and free it.
unsafe impl Send for OwnedPinned {}
// SAFETY: the CUDA driver API lets any thread use a stream.
unsafe impl Send for OwnedStream {}
// SAFETY: the CUDA driver API lets any number of threads use a stream.
unsafe impl Sync for OwnedStream {}
// SAFETY: the CUDA driver API lets any thread use an event.
unsafe impl Send for OwnedEvent {}
// SAFETY: the CUDA driver API lets any number of threads use an event.
unsafe impl Sync for OwnedEvent {}

impl OwnedStream {
    pub(super) fn new(ordinal: usize) -> Result<Self, Error> {
        const FLAGS: u32 = 0;
        const PRIORITY: i32 = 0;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the driver writes one handle into a local.
        unsafe { cuStreamCreateWithPriority(&raw mut raw, FLAGS, PRIORITY) }
            .of("cuStreamCreateWithPriority", ordinal)?;
        Ok(OwnedStream(raw))
    }

    pub(super) fn raw(&self) -> CUstream {
        self.0
    }
}

impl OwnedEvent {
    /// Makes an event with the driver's flags.
    pub(super) fn new(flags: u32, ordinal: usize) -> Result<Self, Error> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the driver writes one handle into a local.
        unsafe { cuEventCreate(&raw mut raw, flags) }.of("cuEventCreate", ordinal)?;
        Ok(OwnedEvent(raw))
    }

    pub(super) fn raw(&self) -> CUevent {
        self.0
    }
}

impl OwnedModule {
    /// Takes ownership of a loaded module.
    pub(super) fn new(raw: CUmodule) -> Self {
        OwnedModule(raw)
    }

    pub(super) fn raw(&self) -> CUmodule {
        self.0
    }

    /// Unloads the module, or returns it if the driver refuses. No call may launch its kernels any more. The context of
    /// its device must be current.
    pub(super) fn unload(self) -> Result<(), Self> {
        // SAFETY: the module exists, since the driver loaded it and this is its only owner. The driver waits for
        // kernels in flight before it frees their code.
        let code = unsafe { cuModuleUnload(self.0) };
        if code == Code::SUCCESS { Ok(()) } else { Err(self) }
    }
}

impl OwnedMemory {
    /// Allocates memory of device `ordinal`. The device's context must be current. If there is too little, frees the
    /// device's cache and tries again.
    pub(super) fn new(bytes: usize, ordinal: usize) -> Result<Self, Error> {
        let mut address = 0;
        // SAFETY: the driver writes one address into a local.
        let mut allocate = || unsafe { cuMemAlloc_v2(&raw mut address, bytes) };
        let mut code = allocate();
        if code == Code::OUT_OF_MEMORY && device_cache::free_all(ordinal) {
            code = allocate();
        }
        code.of("cuMemAlloc", ordinal)?;
        memory_stats::add(ordinal, Kind::Device, bytes);
        Ok(OwnedMemory { address, bytes, ordinal })
    }

    /// Frees the memory, which must not be used any more after success. The device's context is current.
    pub(super) fn release(&self) -> Code {
        // SAFETY: the memory exists, since no owner uses it after success.
        let code = unsafe { cuMemFree_v2(self.address) };
        if code == Code::SUCCESS {
            memory_stats::subtract(self.ordinal, Kind::Device, self.bytes);
        }
        code
    }

    /// Takes back memory that [`OwnedMemory::into_address`] passed to another owner.
    pub(super) fn returned(address: CUdeviceptr, bytes: usize, ordinal: usize) -> Self {
        OwnedMemory { address, bytes, ordinal }
    }

    pub(super) fn address(&self) -> CUdeviceptr {
        self.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Passes the memory's address to an owner outside the library.
    pub(super) fn into_address(self) -> CUdeviceptr {
        self.address
    }
}

impl OwnedPinned {
    /// Page-locks `bytes` of new host memory. The context of device `ordinal` is current.
    pub(super) fn new(bytes: usize, ordinal: usize) -> Result<Self, Error> {
        let mut address = std::ptr::null_mut();
        // SAFETY: the driver writes one pointer into a local.
        unsafe { cuMemHostAlloc(&raw mut address, bytes, PORTABLE_MAPPED) }
            .of("cuMemHostAlloc", ordinal)?;
        let address = NonNull::new(address)
            .ok_or(Error::OutOfHostMemory { bytes, purpose: "pinned memory" })?;
        memory_stats::add(ordinal, Kind::Pinned, bytes);
        Ok(OwnedPinned { address, bytes, ordinal })
    }

    /// Frees the memory, which is used no more if the driver agrees. The context of its device is current.
    pub(super) fn release(&self) -> Code {
        // SAFETY: the memory exists, since no owner uses it after success.
        let code = unsafe { cuMemFreeHost(self.address.as_ptr()) };
        if code == Code::SUCCESS {
            memory_stats::subtract(self.ordinal, Kind::Pinned, self.bytes);
        }
        code
    }

    /// Takes ownership of memory that [`OwnedPinned::into_address`] passed to another owner, who gives it back.
    pub(super) fn returned(address: NonNull<c_void>, bytes: usize, ordinal: usize) -> Self {
        OwnedPinned { address, bytes, ordinal }
    }

    pub(super) fn address(&self) -> NonNull<u8> {
        self.address.cast()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Passes the memory's address to an owner outside the library.
    pub(super) fn into_address(self) -> NonNull<c_void> {
        self.address
    }
}

/// CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP, which equal CU_MEMHOSTREGISTER_'s: every device can access the memory.
pub(super) const PORTABLE_MAPPED: c_uint = 1 | 2;

/// Any of these objects.
#[derive(Debug)]
pub(super) enum Owned {
    Stream(OwnedStream),
    Event(OwnedEvent),
    Memory(OwnedMemory),
    Pinned(OwnedPinned),
}

impl Owned {
    /// The bytes of the object's memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Owned::Stream(_) | Owned::Event(_) => 0,
            Owned::Memory(OwnedMemory { bytes, .. }) | Owned::Pinned(OwnedPinned { bytes, .. }) => {
                *bytes
            }
        }
    }

    /// Destroys the object, or returns it if the driver refuses. The context of its device must be current.
    pub(super) fn destroy(self) -> Result<(), Owned> {
        // SAFETY: the object exists, since this is its only owner. The driver keeps streams and events until their work
        // is done, and waits for the work before it frees memory.
        let code = unsafe {
            match &self {
                Owned::Stream(OwnedStream(stream)) => cuStreamDestroy_v2(*stream),
                Owned::Event(OwnedEvent(event)) => cuEventDestroy_v2(*event),
                Owned::Memory(memory) => memory.release(),
                Owned::Pinned(pinned) => pinned.release(),
            }
        };
        if code == Code::SUCCESS { Ok(()) } else { Err(self) }
    }
}

/// The objects of one device that the driver has refused to destroy so far.
pub(super) struct DeferredFrees(Mutex<VecDeque<Owned>>);

impl DeferredFrees {
    pub(super) const fn new() -> Self {
        DeferredFrees(Mutex::new(VecDeque::new()))
    }

    /// Adds objects at the back of the queue, for [`DeferredFrees::retry`].
    pub(super) fn add(&self, objects: impl IntoIterator<Item = Owned>) {
        let mut refused = self.lock();
        for object in objects {
            // If the queue cannot grow, the object stays with the driver.
            if refused.try_reserve(1).is_ok() {
                refused.push_back(object);
            }
        }
    }

    /// Destroys objects until the driver refuses one, which goes to the back of the queue. Returns the number of freed
    /// bytes. The context of their device is current. The lock is not held meanwhile, since the driver may wait.
    pub(super) fn retry(&self) -> usize {
        let mut freed = 0;
        let next = || self.lock().pop_front();
        while let Some(object) = next() {
            let bytes = object.bytes();
            if let Err(object) = object.destroy() {
                self.add([object]);
                break;
            }
            freed += bytes;
        }
        freed
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Owned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
