//! Slots. A slot is a stream with the buffers that a chunk needs on its way through a device, kept from call to call.
//!
//! A slot allocates its pinned and device memory when a chunk first needs it. Its stream runs a chunk's copies and
//! kernel in order. Several slots work concurrently, so that copies in both directions and kernels overlap. The number
//! of slots bounds the pinned and device memory that the library allocates.

use super::completion::Flags;
use super::driver::{CUstream, cuStreamSynchronize};
use super::owned::{Owned, OwnedMemory, OwnedPinned, OwnedStream};
use super::scratch::Scratch;
use crate::call::{SlotKind, Transfer, Transfers};
use crate::error::Error;
use crate::policy::gpu;
use crate::process::memory::page_bytes;
use crate::process::warmup;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The buffers that the chunks of a call need.
pub(super) struct Buffers<'a> {
    /// The transfers of the arrays.
    pub(super) transfers: &'a Transfers,
    /// The size of a chunk's states, for contiguous arrays.
    pub(super) state_bytes: usize,
}

/// A stream and the memory that its chunk uses.
pub(crate) struct Slot {
    stream: ManuallyDrop<OwnedStream>,
    ordinal: usize,
    kind: SlotKind,
    /// The warps of the newest kernel that set flags when they are done. With 0, waiting synchronizes the stream.
    pub(super) flagged_warps: u32,
    /// True if there may be work that was not waited for.
    is_in_flight: bool,
    pinned: Option<OwnedPinned>,
    device: Option<OwnedMemory>,
    /// Pinned memory for flags, followed by the states of a chunk.
    states: Option<OwnedPinned>,
    scratch: Option<Scratch>,
}

// SAFETY: the pointers are to the slot's own memory, which the thread that holds the slot may use.
unsafe impl Send for Slot {}

const NO_BUFFER: Error = Error::Internal { text: "a slot lacks a buffer" };

impl Slot {
    fn new(ordinal: usize, kind: SlotKind) -> Result<Self, Error> {
        warmup::note();
        Ok(Slot {
            stream: ManuallyDrop::new(OwnedStream::new(ordinal)?),
            ordinal,
            kind,
            flagged_warps: 0,
            is_in_flight: false,
            pinned: None,
            device: None,
            states: None,
            scratch: None,
        })
    }

    /// Returns the stream, to queue work on it.
    pub(super) fn begin(&mut self) -> CUstream {
        self.is_in_flight = true;
        self.flagged_warps = 0;
        self.stream.raw()
    }

    /// Allocates the buffers that are missing.
    fn make_buffers(&mut self, buffers: &Buffers<'_>) -> Result<(), Error> {
        let Buffers { transfers, state_bytes } = *buffers;
        let ordinal = self.ordinal;
        if transfers.any(Transfer::Staged) {
            made(&mut self.pinned, || OwnedPinned::new(gpu::STAGED_SLOT_BYTES, ordinal))?;
        }
        if transfers.any(Transfer::Dma) {
            let bytes = match self.kind {
                SlotKind::Staged => gpu::STAGED_SLOT_BYTES,
                _ => gpu::DMA_SLOT_BYTES,
            };
            made(&mut self.device, || OwnedMemory::new(bytes, ordinal))?;
        }
        if transfers.any(Transfer::State) {
            self.make_states(state_bytes)?;
            made(&mut self.scratch, || Scratch::new(ordinal))?;
        }
        Ok(())
    }

    /// Allocates memory for flags and states of `bytes` bytes, unless there is enough. The slot's work is done.
    fn make_states(&mut self, bytes: usize) -> Result<(), Error> {
        let bytes = (Flags::BYTES + bytes).next_multiple_of(page_bytes());
        if let Some(states) = self.states.as_ref().filter(|states| states.bytes() < bytes) {
            states.release().of("cuMemFreeHost", self.ordinal)?;
            self.states = None;
        }
        made(&mut self.states, || OwnedPinned::new(bytes, self.ordinal))
    }

    /// Pinned memory for a chunk of every staged array. Its address is the same on all devices.
    pub(super) fn pinned(&self) -> Result<NonNull<u8>, Error> {
        self.pinned.as_ref().map(OwnedPinned::address).ok_or(NO_BUFFER)
    }

    /// Bytes of this memory from a place on.
    pub(super) fn pinned_bytes(&self, place: usize, bytes: usize) -> Result<&[u8], Error> {
        self.bytes_of(self.pinned.as_ref(), place, bytes)
    }

    /// Bytes of pinned memory of the slot from a place on. Fails if a device may be using the memory.
    fn bytes_of(
        &self, memory: Option<&OwnedPinned>, place: usize, bytes: usize,
    ) -> Result<&[u8], Error> {
        let memory = memory.ok_or(NO_BUFFER)?;
        if self.is_in_flight || place + bytes > memory.bytes() {
            return Err(Error::Internal { text: "bytes outside a slot's buffer" });
        }
        // SAFETY: the memory is the slot's own and large enough, and no device writes there until work begins again.
        // The bytes were zero at first.
        Ok(unsafe { std::slice::from_raw_parts(memory.address().add(place).as_ptr(), bytes) })
    }

    /// Device memory for a chunk of every array that is copied by DMA.
    pub(super) fn device(&self) -> Result<u64, Error> {
        self.device.as_ref().map(OwnedMemory::address).ok_or(NO_BUFFER)
    }

    /// The address of the pinned memory for states.
    pub(super) fn states_address(&self) -> Result<u64, Error> {
        let states = self.states.as_ref().map(OwnedPinned::address).ok_or(NO_BUFFER)?;
        Ok((states.addr().get() + Flags::BYTES) as u64)
    }

    /// Bytes of this memory from a place on.
    pub(super) fn states(&self, place: usize, bytes: usize) -> Result<&[u8], Error> {
        self.bytes_of(self.states.as_ref(), Flags::BYTES + place, bytes)
    }

    /// Device memory in which the blocks of a reduction merge their states, if chunks need it.
    pub(super) fn scratch(&mut self) -> Option<&mut Scratch> {
        self.scratch.as_mut()
    }

    /// The flags for the warps of a kernel, if there is memory for them.
    pub(super) fn flags(&mut self) -> Option<Flags> {
        self.make_states(0).ok()?;
        self.made_flags()
    }

    fn made_flags(&self) -> Option<Flags> {
        // SAFETY: the buffer begins with flags, and is the slot's as long as the slot is in use.
        self.states.as_ref().map(|states| unsafe { Flags::at(states.address()) })
    }

    /// Waits until the newest work is done and its results are visible. After an error the work may still be in flight.
    /// The context of the slot's device is current.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        if !self.is_in_flight {
            return Ok(());
        }
        let warps = std::mem::take(&mut self.flagged_warps);
        if warps == 0 || !self.made_flags().is_some_and(|flags| flags.are_set(warps)) {
            // SAFETY: the stream is the slot's, and never destroyed.
            unsafe { cuStreamSynchronize(self.stream.raw()) }
                .of("cuStreamSynchronize", self.ordinal)
                .inspect_err(|_| self.scratch.iter_mut().for_each(Scratch::spoil))?;
        }
        self.is_in_flight = false;
        Ok(())
    }

    /// Waits until the stream has nothing to do. A kernel may still be ending after its warps have set their flags.
    fn synchronize(&mut self) -> Result<(), Error> {
        self.wait()?;
        // SAFETY: the stream is the slot's.
        unsafe { cuStreamSynchronize(self.stream.raw()) }.of("cuStreamSynchronize", self.ordinal)
    }

    /// Takes a slot apart that is no longer used.
    fn into_owned(self) -> impl Iterator<Item = Owned> {
        let scratch = self.scratch.into_iter().flat_map(Scratch::into_memories);
        let pinned = self.pinned.into_iter().chain(self.states).map(Owned::Pinned);
        let device = self.device.into_iter().chain(scratch).map(Owned::Memory);
        pinned.chain(device).chain([Owned::Stream(ManuallyDrop::into_inner(self.stream))])
    }
}

/// Makes a value that is missing.
fn made<T>(place: &mut Option<T>, make: impl FnOnce() -> Result<T, Error>) -> Result<(), Error> {
    if place.is_none() {
        *place = Some(make()?);
        warmup::note();
    }
    Ok(())
}

/// A device's slots of one kind. All calls share them, chunk by chunk.
pub(super) struct SlotPool {
    ordinal: usize,
    kind: SlotKind,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    idle: Vec<Slot>,
    made: usize,
    /// The threads that wait for a slot. If there are none, no futex wake is needed.
    waiting: usize,
}

impl SlotPool {
    pub(super) fn new(ordinal: usize, kind: SlotKind) -> Self {
        let idle = Vec::with_capacity(gpu::SLOTS[kind as usize]);
        let state = Mutex::new(State { idle, made: 0, waiting: 0 });
        SlotPool { ordinal, kind, state, returned: Condvar::new() }
    }

    fn max(&self) -> usize {
        gpu::SLOTS[self.kind as usize]
    }

    /// Claims a slot with the buffers that chunks need. If none is free, returns `None` to a thread that holds other
    /// slots, and waits otherwise.
    pub(super) fn take(
        &self, buffers: &Buffers<'_>, holds_others: bool,
    ) -> Result<Option<TakenSlot<'_>>, Error> {
        let taken = match self.try_take()? {
            None if !holds_others => Some(self.take_free()?),
            taken => taken,
        };
        taken.map(|slot| slot.after(|slot| slot.make_buffers(buffers))).transpose()
    }

    /// Claims a slot that is free now. The device's context stays current until the slot is returned.
    fn try_take(&self) -> Result<Option<TakenSlot<'_>>, Error> {
        let mut state = self.lock();
        if let Some(slot) = state.idle.pop() {
            drop(state);
            // An earlier call may have failed to wait for it.
            return TakenSlot { pool: self, slot: Some(slot) }.after(Slot::wait).map(Some);
        }
        if state.made == self.max() {
            return Ok(None);
        }
        state.made += 1;
        drop(state);
        let slot = Slot::new(self.ordinal, self.kind)
            .inspect_err(|_| self.change(|state| state.made -= 1))?;
        Ok(Some(TakenSlot { pool: self, slot: Some(slot) }))
    }

    /// Waits for a free slot and claims it. Only for threads that hold none, so that the threads that hold slots go on.
    fn take_free(&self) -> Result<TakenSlot<'_>, Error> {
        loop {
            if let Some(slot) = self.try_take()? {
                return Ok(slot);
            }
            let mut state = self.lock();
            state.waiting += 1;
            let is_none = |state: &mut State| state.idle.is_empty() && state.made == self.max();
            let waited = self.returned.wait_while(state, is_none);
            waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
        }
    }

    /// Takes apart the slots that no call uses, and passes their objects to `destroy`. A slot counts until its objects
    /// are destroyed. The device's context is current.
    pub(super) fn trim(&self, mut destroy: impl FnMut(Owned)) {
        // Bounded, since other threads may use and return slots without end.
        for _ in 0..self.max() {
            let Some(mut slot) = self.lock().idle.pop() else { return };
            if slot.synchronize().is_err() {
                return self.change(|state| state.idle.insert(0, slot));
            }
            slot.into_owned().for_each(&mut destroy);
            self.change(|state| state.made -= 1);
        }
    }

    /// Changes the state, and wakes a thread that waits for a slot.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.returned.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot that a call holds. However the call ends, even by a panic, the slot's work is waited for and the slot is
/// returned. If the wait fails, the next call that claims the slot waits again.
pub(super) struct TakenSlot<'a> {
    pool: &'a SlotPool,
    /// Present until it is returned.
    slot: Option<Slot>,
}

const TAKEN: &str = "a slot that was returned is not used";

impl Deref for TakenSlot<'_> {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        self.slot.as_ref().expect(TAKEN)
    }
}

impl DerefMut for TakenSlot<'_> {
    fn deref_mut(&mut self) -> &mut Slot {
        self.slot.as_mut().expect(TAKEN)
    }
}

impl TakenSlot<'_> {
    /// Prepares the slot. If that fails, the slot is returned, to the back of the queue.
    fn after(
        mut self, prepare: impl FnOnce(&mut Slot) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        match prepare(&mut self) {
            Ok(()) => Ok(self),
            Err(error) => {
                if let Some(slot) = self.slot.take() {
                    self.pool.change(|state| state.idle.insert(0, slot));
                }
                Err(error)
            }
        }
    }
}

impl Drop for TakenSlot<'_> {
    fn drop(&mut self) {
        if let Some(mut slot) = self.slot.take() {
            let _ = slot.wait();
            self.pool.change(|state| state.idle.push(slot));
        }
    }
}
