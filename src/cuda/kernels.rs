//! The kernels: PTX from the library's images, or generated from formulas. Each device's driver compiles it.

use super::driver::{CUfunction_attribute, CUstream, cuFuncSetAttribute, cuLaunchKernel};
use super::grid::BLOCK_THREADS;
use super::modules::{self, Entry, Function, Modules};
use super::reduce_axes::Partition;
use crate::call::{Formula, MAX_ARRAYS, Task, TaskKind};
use crate::error::{Error, interned};
use crate::process::memory;
use arrayvec::ArrayVec;
use gpuvec_ops::Op;
use gpuvec_ptx::{AxisReduction, Variant};
use lzma_rust2::{LzmaReader, Read};
use once_cell::race::OnceBox;
use once_cell::sync::OnceCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An image of PTX: one compiled kernel.
struct Image {
    /// The kernel's name.
    name: &'static CStr,
    /// The offset of its PTX, a C string, in the unpacked images.
    start: usize,
}

// `IMAGES: [Image; _]`, one for each file of kernels/ptx, in the order of their names; `PACKED` and `UNPACKED_BYTES`.
include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// The PTX of a kernel that does nothing. It has the same header as the images: a driver that accepts it accepts them.
const PROBE: &CStr = c".version 8.0
.target sm_60
.address_size 64
.visible .entry probe()
{
ret;
}
";

impl Image {
    fn of(name: &str) -> Result<&'static Self, Error> {
        let place = IMAGES.binary_search_by(|image| image.name.to_bytes().cmp(name.as_bytes()));
        let none = |_| Error::Internal { text: interned(format!("there is no kernel {name}")) };
        place.map(|place| &IMAGES[place]).map_err(none)
    }

    fn ptx(&self) -> Result<&'static CStr, Error> {
        const NO_PTX: Error = Error::Internal { text: "an image without its end" };
        CStr::from_bytes_until_nul(&unpacked()?[self.start..]).map_err(|_| NO_PTX)
    }
}

/// The PTX of all images. The first call unpacks it, in some milliseconds. Threads that unpack it at the same time each
/// unpack a copy, and all but one drop theirs: a child that is forked meanwhile waits for no thread.
fn unpacked() -> Result<&'static [u8], Error> {
    static UNPACKED: OnceBox<Vec<u8>> = OnceBox::new();
    let unpack = || {
        // The reader allocates these bytes again, and buffers, and would abort without memory for them.
        const BUFFERS: usize = 128 << 10;
        let (bytes, purpose) = (2 * UNPACKED_BYTES + BUFFERS, "the kernels' images");
        let none_left = |_| Error::OutOfHostMemory { bytes, purpose };
        Vec::<u8>::new().try_reserve_exact(bytes).map_err(none_left)?;
        let mut images = memory::filled(0, UNPACKED_BYTES).map_err(none_left)?;
        LzmaReader::new_mem_limit(PACKED, u32::MAX, None)
            .and_then(|mut reader| reader.read_exact(&mut images))
            .map_err(|_| Error::Internal { text: "the kernels' images do not unpack" })?;
        Ok(Box::new(images))
    };
    UNPACKED.get_or_try_init(unpack).map(Vec::as_slice)
}

/// The kernel of a formula that has one.
pub(crate) fn kernel_of(formula: &Formula) -> Result<&gpuvec_ptx::Kernel, Error> {
    formula.kernel(text_of)
}

/// The text of an image.
fn text_of(name: &str) -> Result<&'static str, Error> {
    let ptx = Image::of(name)?.ptx()?;
    ptx.to_str().map_err(|_| Error::Internal { text: "an image that is not text" })
}

/// The number of blocks of a task's reduction that a multiprocessor should run at once. The grid has no more blocks:
/// those that begin after others have ended would add their states late.
pub(super) fn blocks_per_multiprocessor(task: Task<'_>) -> Result<u32, Error> {
    let of = gpuvec_ptx::Kernel::blocks_per_multiprocessor;
    task.formula().map_or(Ok(1), |formula| kernel_of(formula).map(of))
}

/// The number of elements that a thread of a task's elementwise kernel computes at once (a pack), and the number of
/// packs of a thread in a large grid.
pub(super) fn packs(task: Task<'_>) -> Result<[usize; 2], Error> {
    const OF_COPY: [usize; 2] = [16, 1];
    let of = |kernel: &gpuvec_ptx::Kernel| [kernel.items_per_thread(), kernel.tiles_per_thread()];
    task.formula().map_or(Ok(OF_COPY), |formula| kernel_of(formula).map(of))
}

/// The kernels of one device. The first call that needs a kernel loads it into the device's context.
pub(super) struct Kernels {
    ordinal: usize,
    /// The most bytes of dynamic shared memory of a block of a reduction by key.
    pub(super) by_key_bytes: usize,
    operations: [OnceCell<Function>; Op::ALL.len()],
    copy: OnceCell<Function>,
    pub(super) modules: Modules,
    /// The kernels of expressions, by the ids of their formulas. Loading a kernel does not hold the lock.
    expressions: Mutex<HashMap<u64, Vec<Place>>>,
}

/// A kernel of a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The kernel for contiguous arrays.
    Contiguous,
    /// An elementwise kernel for arrays of any strides.
    Strided(Variant),
    /// The kernel of a reduction along axes.
    Along(AxisReduction),
}

/// The place of an expression's kernel.
type Place = (Form, Arc<OnceCell<Function>>);

/// The most parameters of a kernel for contiguous arrays: inputs, outputs, and a few more.
pub(super) const MAX_PARAMETERS: usize = MAX_ARRAYS + 8;

/// The most parameters of a kernel for arrays of any strides, which also has lengths and strides.
pub(super) const MAX_STRIDED_PARAMETERS: usize =
    MAX_PARAMETERS + (MAX_ARRAYS + 3) * gpuvec_axes::MAX_AXES + 2;

impl Kernels {
    /// Unpacks the images, so that the first call need not wait for that, and loads a kernel that does nothing, to see
    /// that the driver accepts them. The context of device `ordinal` is current.
    pub(super) fn new(ordinal: usize, by_key_bytes: usize) -> Result<Self, Error> {
        let modules = Modules::new(ordinal);
        unpacked()?;
        modules.load(PROBE, c"probe", BLOCK_THREADS)?;
        let operations = [const { OnceCell::new() }; Op::ALL.len()];
        let (copy, expressions) = (OnceCell::new(), Mutex::default());
        Ok(Kernels { ordinal, by_key_bytes, operations, copy, modules, expressions })
    }

    /// Loads the kernels of a formula that are not loaded yet.
    pub(super) fn load_all(&self, formula: &Formula) -> Result<(), Error> {
        formula.kernels().try_for_each(|(kernel, _)| self.of(kernel).map(|_| ()))
    }

    /// The kernel of a formula that has one, loaded now if necessary. Other threads that need it wait.
    fn of(&self, formula: &Formula) -> Result<Entry, Error> {
        let Some(op) = formula.op else { return self.expression(formula, Form::Contiguous) };
        self.operations[op as usize]
            .get_or_try_init(|| self.load(formula, Form::Contiguous))
            .map(|function| function.entry)
    }

    /// The kernel that copies bytes between addresses of host memory that the device can access.
    fn copy(&self) -> Result<Entry, Error> {
        let load = || {
            Image::of("copy_bytes")
                .and_then(|image| self.modules.load(image.ptx()?, image.name, BLOCK_THREADS))
        };
        self.copy.get_or_try_init(load).map(|function| function.entry)
    }

    /// Loads a kernel of a formula.
    fn load(&self, formula: &Formula, form: Form) -> Result<Function, Error> {
        let loaded = self.load_now(formula, form)?;
        match formula.kind {
            TaskKind::Grouped => self.allow_shared_memory(loaded),
            TaskKind::Copy | TaskKind::Elementwise | TaskKind::Reduced | TaskKind::Mixed => {
                Ok(loaded)
            }
        }
    }

    fn load_now(&self, formula: &Formula, form: Form) -> Result<Function, Error> {
        let load = |kernel: &gpuvec_ptx::Kernel| {
            self.modules.load(kernel.image(), kernel.name(), kernel.threads())
        };
        match form {
            Form::Contiguous => load(kernel_of(formula)?),
            Form::Strided(variant) => load(&formula.variant(kernel_of(formula)?, variant)?),
            Form::Along(along) => load(&formula.along_axes(along, text_of)?),
        }
    }

    /// Lets the kernel of a reduction by key have more shared memory than other kernels.
    fn allow_shared_memory(&self, function: Function) -> Result<Function, Error> {
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = self.by_key_bytes as c_int;
        // SAFETY: the function is loaded.
        let code = unsafe { cuFuncSetAttribute(function.entry.raw, attribute, bytes) };
        match code.of("cuFuncSetAttribute", self.ordinal) {
            Ok(()) => Ok(function),
            Err(error) => {
                self.modules.retire(function.module);
                Err(error)
            }
        }
    }

    /// A kernel of an expression, loaded now if necessary. The call that loads it then unloads retired modules; other
    /// threads that need the kernel do not wait for that.
    fn expression(&self, formula: &Formula, form: Form) -> Result<Entry, Error> {
        let cell = match self.known(formula, form) {
            Some(cell) => cell,
            None => self.enter(formula, form)?,
        };
        let mut is_new = false;
        let function = cell.get_or_try_init(|| {
            is_new = true;
            self.load(formula, form)
        })?;
        if is_new {
            self.modules.unload_retired(modules::UNLOADED_AT_ONCE);
        }
        Ok(function.entry)
    }

    /// The place of an expression's kernel, if it has one.
    fn known(&self, formula: &Formula, form: Form) -> Option<Arc<OnceCell<Function>>> {
        self.expressions().get(&formula.id).and_then(|places| find(places, form))
    }

    /// Makes a place for an expression's kernel.
    fn enter(&self, formula: &Formula, form: Form) -> Result<Arc<OnceCell<Function>>, Error> {
        let bytes = memory::NEEDED_BYTES;
        let mut expressions = self.expressions();
        if expressions.try_reserve(1).is_err() || !memory::is_left() {
            return Err(Error::OutOfHostMemory { bytes, purpose: "one more kernel" });
        }
        let places = expressions.entry(formula.id).or_default();
        Ok(find(places, form).unwrap_or_else(|| {
            places.push((form, Arc::default()));
            places[places.len() - 1].1.clone()
        }))
    }

    /// True if the kernel of a formula with one kernel is loaded.
    pub(super) fn has(&self, formula: &Formula) -> bool {
        match formula.op {
            Some(op) => self.operations[op as usize].get().is_some(),
            None => {
                // Calls by key on arrays of any strides have no kernel for contiguous arrays.
                let is_by_key = formula.kind == TaskKind::Grouped;
                let expressions = self.expressions();
                let mut places = expressions.get(&formula.id).into_iter().flatten();
                places.any(|(form, cell)| {
                    (is_by_key || *form == Form::Contiguous) && cell.get().is_some()
                })
            }
        }
    }

    /// Retires the loaded kernels of an expression.
    pub(super) fn forget(&self, id: u64) {
        let places = self.expressions().remove(&id);
        for (_, cell) in places.into_iter().flatten() {
            if let Some(function) = Arc::into_inner(cell).and_then(OnceCell::into_inner) {
                self.modules.retire(function.module);
            }
        }
    }

    fn expressions(&self) -> MutexGuard<'_, HashMap<u64, Vec<Place>>> {
        self.expressions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a kernel of a task with that many blocks, each with these bytes of dynamic shared memory, and with these
    /// parameters of at most 64 bits each. A kernel may have fewer parameters than
    /// there are values. A reduction along axes has the partition as its last parameter.
    ///
    /// # Safety
    /// The stream must be the device's, and the device's context must be current. The values must be the parameters of
    /// the kernel (crates/ptx/src, kernels/*.cu). The device must be able to access the memory at the addresses among
    /// them, and nothing else may change that memory until the stream has run the kernel.
    pub(super) unsafe fn launch(
        &self, task: Task<'_>, form: Form, [blocks, shared_bytes]: [u32; 2], stream: CUstream,
        values: &mut [u64], partition: Option<&Partition>,
    ) -> Result<(), Error> {
        let Entry { raw, threads } = match (task.formula(), form) {
            (None, _) => self.copy()?,
            (Some(formula), Form::Contiguous) => self.of(formula)?,
            (Some(formula), form) => self.expression(formula, form)?,
        };
        let parameter = |value: &mut u64| std::ptr::from_mut(value).cast();
        let partition = partition.map(|partition| std::ptr::from_ref(partition).cast_mut().cast());
        let mut parameters = ArrayVec::<*mut c_void, MAX_STRIDED_PARAMETERS>::new();
        parameters.extend(values.iter_mut().map(parameter).chain(partition));
        let (parameters, extra) = (parameters.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: before it returns, the driver reads the kernel's parameters: the structure, and for each other one
        // its bytes from the low end of a local word. The kernel declares their types. The rest is this function's
        // promise.
        unsafe {
            cuLaunchKernel(
                raw,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                shared_bytes,
                stream,
                parameters,
                extra,
            )
        }
        .of("cuLaunchKernel", self.ordinal)
    }
}

/// The place of a form of an expression's kernel.
fn find(places: &[Place], form: Form) -> Option<Arc<OnceCell<Function>>> {
    places.iter().find(|(other, _)| *other == form).map(|(_, cell)| cell.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_kernel() {
        for &op in Op::ALL {
            let found = kernel_of(Formula::of(op));
            assert!(found.is_ok(), "{op:?}: {found:?}");
        }
    }

    #[test]
    fn kernels_along_axes_have_the_partition_as_last_parameter() {
        let parameter = format!(".b8 p4[{}]\n)", size_of::<Partition>());
        for image in IMAGES.iter().filter(|image| image.name.to_bytes().starts_with(b"axes_")) {
            assert!(
                image.ptx().unwrap().to_str().unwrap().contains(&parameter),
                "{:?}",
                image.name
            );
        }
    }

    #[test]
    fn an_image_is_one_kernel_for_the_oldest_driver() {
        let (head, _) = PROBE.to_str().unwrap().split_once(".visible").unwrap();
        assert!(head.starts_with(".version 8.0\n.target sm_60\n"));
        for image in &IMAGES {
            let name = image.name.to_str().unwrap();
            let ptx = image.ptx().unwrap().to_str().unwrap();
            assert!(ptx.starts_with(head), "{name}");
            let entries: Vec<&str> = ptx.split(".visible .entry ").skip(1).collect();
            assert_eq!(entries.len(), 1, "{name}");
            assert!(entries[0].starts_with(&format!("{name}(")), "{name}");
        }
    }
}
