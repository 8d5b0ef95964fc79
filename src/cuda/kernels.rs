//! The kernels: PTX inside the library, which each device's driver compiles for itself.

use super::completion::Flags;
use super::driver::{
    self, CUfunction, CUstream, Code, Driver, cuLaunchKernel, cuModuleGetFunction, cuModuleLoadData,
};
use crate::error::{Error, kept};
use crate::op::{Op, Shape};
use crate::sum::{GROUP, SumKind, TILE};
use crate::tuning;
use once_cell::sync::OnceCell;
use std::ffi::{CString, c_void};

/// The images, as `kernels/build.py` made them from the `.cu` files beside them.
const ELEMENTWISE: &str = include_str!("../../kernels/elementwise.ptx");
const REDUCE: &str = include_str!("../../kernels/reduce.ptx");
const FINISH: &str = include_str!("../../kernels/finish.ptx");

/// The oldest driver that takes the images' PTX ISA 8.0 supports this CUDA version.
const OLDEST_CUDA: i32 = 12_000;

const BLOCK_THREADS: u32 = 256;
const WARP_THREADS: u32 = 32;
/// The most blocks that CUDA launches; threads go on to further elements from there.
const MOST_BLOCKS: u32 = i32::MAX as u32;
/// In the place of completion flags, for a kernel that is to set none.
const NO_FLAGS: u64 = 0;
/// What a thread of an elementwise kernel reads of each array at once.
const PACK_BYTES: usize = 16;

/// A kernel: an operation's, or one of those that belong to none.
#[derive(Clone, Copy)]
enum Kernel {
    Of(Op),
    Copy,
    FoldF64,
    FoldI64,
    FinishF32,
    FinishF64,
    FinishI64,
}

impl Kernel {
    const OTHERS: [Kernel; 6] = [
        Kernel::Copy,
        Kernel::FoldF64,
        Kernel::FoldI64,
        Kernel::FinishF32,
        Kernel::FinishF64,
        Kernel::FinishI64,
    ];

    fn all() -> impl Iterator<Item = Kernel> {
        Op::ALL.iter().map(|op| Kernel::Of(*op)).chain(Kernel::OTHERS)
    }

    /// Its place among all.
    fn number(self) -> usize {
        let operations = Op::ALL.len();
        match self {
            Kernel::Of(op) => op as usize,
            Kernel::Copy => operations,
            Kernel::FoldF64 => operations + 1,
            Kernel::FoldI64 => operations + 2,
            Kernel::FinishF32 => operations + 3,
            Kernel::FinishF64 => operations + 4,
            Kernel::FinishI64 => operations + 5,
        }
    }

    /// Its name, and the image that it is in.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            Kernel::Of(op) if op.shape() == Shape::Reduction => (op.kernel(), REDUCE),
            Kernel::Of(op) => (op.kernel(), ELEMENTWISE),
            Kernel::Copy => ("copy_bytes", ELEMENTWISE),
            Kernel::FoldF64 => ("fold_f64", FINISH),
            Kernel::FoldI64 => ("fold_i64", FINISH),
            Kernel::FinishF32 => ("finish_f32", FINISH),
            Kernel::FinishF64 => ("finish_f64", FINISH),
            Kernel::FinishI64 => ("finish_i64", FINISH),
        }
    }
}

/// What every kernel in an image begins with.
const ENTRY: &str = ".visible .entry ";

/// What an image begins with: the version and the architecture that it is for.
fn head_of(image: &str) -> Option<&str> {
    Some(&image[..image.find(ENTRY)?])
}

/// An image with a kernel that does nothing, which a driver compiles at once: if it takes this one,
/// it takes the others.
fn probe() -> Option<CString> {
    CString::new(format!("{}{ENTRY}probe()\n{{\nret;\n}}\n", head_of(ELEMENTWISE)?)).ok()
}

/// The part of an image that is one kernel: a driver compiles it in some milliseconds, and all of
/// them in some tenths of a second.
fn image_of(kernel: Kernel) -> Option<CString> {
    let (name, image) = kernel.source();
    let head = head_of(image)?;
    let body = &image[image.find(&format!("{ENTRY}{name}("))?..];
    let end = body[ENTRY.len()..].find(ENTRY).map_or(body.len(), |next| ENTRY.len() + next);
    CString::new(format!("{head}{}", &body[..end])).ok()
}

/// The kernels of one device, each loaded into its context when it is first needed.
pub(crate) struct Kernels {
    driver: Driver,
    loaded: Vec<OnceCell<Function>>,
    /// The device that they are for.
    pub(crate) ordinal: usize,
}

struct Function(CUfunction);

// SAFETY: functions may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Kernels {
    /// Those of device `ordinal`, whose context is current, if its driver takes them. None is loaded
    /// yet.
    pub(crate) fn new(driver: Driver, ordinal: usize) -> Result<Self, Error> {
        let loaded = Kernel::all().map(|_| OnceCell::new()).collect();
        load(driver, ordinal, probe(), "probe")?;
        Ok(Kernels { driver, loaded, ordinal })
    }

    /// A kernel, loaded now if it was not; another thread that needs it waits.
    fn function(&self, kernel: Kernel) -> Result<CUfunction, Error> {
        let load = || load(self.driver, self.ordinal, image_of(kernel), kernel.source().0);
        self.loaded[kernel.number()].get_or_try_init(load).map(|function| function.0)
    }

    /// Loads the kernel of `op`, if it was not: what cannot be loaded is known before work begins.
    pub(crate) fn prepare(&self, op: Op) -> Result<(), Error> {
        self.function(Kernel::Of(op)).map(|_| ())
    }

    /// Queues the kernel of `op` over `n` elements: from `a` and `b` (`a` again, for an operation
    /// with one input) into `out`, which for a reduction takes one sum for each tile. Addresses are
    /// the device's. `owns_bus` says that some are of host memory, and that no other kernel of the
    /// call is under way. Returns how many warps will set their flags; 0 if there are too many for them.
    pub(crate) fn launch(
        &self,
        (op, alpha): (Op, u64),
        stream: CUstream,
        [a, b, out]: [u64; 3],
        n: usize,
        owns_bus: bool,
        flags: Option<Flags>,
    ) -> Result<u32, Error> {
        let blocks = match op.shape() {
            Shape::Elementwise => blocks_of_packs(n * op.element_bytes(), owns_bus),
            Shape::Reduction => blocks_of(n.div_ceil(TILE) * WARP_THREADS as usize),
        };
        let warps = blocks.saturating_mul(BLOCK_THREADS / WARP_THREADS);
        let flags = flags.filter(|_| warps <= tuning::FLAGGED_WARPS);
        let address = flags.map_or(NO_FLAGS, |flags| {
            flags.clear(warps);
            flags.address()
        });
        let parameters = &mut [a, b, out, n as u64, address, alpha];
        self.queue(Kernel::Of(op), blocks, stream, parameters)?;
        Ok(if flags.is_some() { warps } else { 0 })
    }

    /// Queues a copy of `n` bytes between addresses of host memory that the device reaches.
    pub(crate) fn copy(
        &self,
        stream: CUstream,
        [from, to]: [u64; 2],
        n: usize,
    ) -> Result<(), Error> {
        let blocks = blocks_of_packs(n, true);
        self.queue(Kernel::Copy, blocks, stream, &mut [from, from, to, n as u64, NO_FLAGS])
    }

    /// Queues what makes one sum of each [`GROUP`] of `count` sums.
    pub(crate) fn fold(
        &self,
        kind: SumKind,
        stream: CUstream,
        sums: u64,
        groups: u64,
        count: usize,
    ) -> Result<(), Error> {
        let kernel = match kind {
            SumKind::F64 => Kernel::FoldF64,
            SumKind::I64 => Kernel::FoldI64,
        };
        let blocks = u32::try_from(count.div_ceil(GROUP)).unwrap_or(u32::MAX);
        self.queue(kernel, blocks, stream, &mut [sums, groups, count as u64])
    }

    /// Queues what adds up `count` sums, destroying them, and stores the result at `out`, in the
    /// type of the operation's output.
    pub(crate) fn finish(
        &self,
        op: Op,
        stream: CUstream,
        sums: u64,
        out: u64,
        count: usize,
    ) -> Result<(), Error> {
        let kernel = match (op.sum_kind(), op.output_bytes()) {
            (SumKind::F64, 4) => Kernel::FinishF32,
            (SumKind::F64, _) => Kernel::FinishF64,
            (SumKind::I64, _) => Kernel::FinishI64,
        };
        self.queue(kernel, 1, stream, &mut [sums, out, count as u64])
    }

    /// Queues a kernel whose parameters are the first of `values`, each of at most 64 bits.
    fn queue(
        &self,
        kernel: Kernel,
        blocks: u32,
        stream: CUstream,
        values: &mut [u64],
    ) -> Result<(), Error> {
        let function = self.function(kernel)?;
        let mut parameters = [std::ptr::null_mut::<c_void>(); 6];
        for (parameter, value) in parameters.iter_mut().zip(values) {
            *parameter = std::ptr::from_mut(value).cast();
        }
        let (x, parameters) = (BLOCK_THREADS, parameters.as_mut_ptr());
        // SAFETY: the driver copies the kernel's parameters before it returns, each in its size
        // from the low end of a local word: their types are those that kernels/*.cu declare. The
        // callers answer for the addresses and for how long they last.
        unsafe {
            cuLaunchKernel(
                function,
                blocks,
                1,
                1,
                x,
                1,
                1,
                0,
                stream,
                parameters,
                std::ptr::null_mut(),
            )
        }
        .of("cuLaunchKernel", self.ordinal)
    }
}

/// One thread for each pack of an elementwise kernel: on a device's own memory threads that go over
/// several are slower by some per cent. (And one warp for each tile of a reduction.) Few threads for
/// one that goes across the bus alone; of several such kernels, those that fill the device keep the
/// others waiting, and few threads of each would be many.
fn blocks_of_packs(bytes: usize, owns_bus: bool) -> u32 {
    let blocks = blocks_of(bytes.div_ceil(PACK_BYTES));
    if owns_bus { blocks.min(tuning::BLOCKS_ACROSS_BUS) } else { blocks }
}

fn blocks_of(threads: usize) -> u32 {
    let blocks = threads.div_ceil(BLOCK_THREADS as usize);
    u32::try_from(blocks).map_or(MOST_BLOCKS, |blocks| blocks.min(MOST_BLOCKS))
}

/// Loads an image into the current context, for ever, and finds the kernel of that name in it.
fn load(
    driver: Driver,
    ordinal: usize,
    image: Option<CString>,
    name: &str,
) -> Result<Function, Error> {
    const NO_IMAGE: Error = Error::NoGpu { why: "a kernel has no image" };
    let image = image.ok_or(NO_IMAGE)?;
    let name = CString::new(name).map_err(|_| NO_IMAGE)?;
    let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the image and the name end in NUL; the driver writes one handle into each local. The
    // module is never unloaded: at exit the driver may be gone before this library.
    unsafe {
        match cuModuleLoadData(&raw mut module, image.as_ptr().cast()) {
            Code::SUCCESS => {}
            code => return Err(refusal(driver, ordinal, code)),
        }
        cuModuleGetFunction(&raw mut function, module, name.as_ptr())
            .of("cuModuleGetFunction", ordinal)?;
    }
    Ok(Function(function))
}

/// The reason for which the driver refused an image with a code.
fn refusal(driver: Driver, ordinal: usize, code: Code) -> Error {
    let version = driver::version(driver);
    if version < OLDEST_CUDA {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        let why = format!("the driver supports CUDA {major}.{minor}; 12.0 (driver 525) is needed");
        return Error::NoGpu { why: kept(why) };
    }
    let Code(number) = code;
    Error::Driver { call: "cuModuleLoadData", name: code.name(), code: number, ordinal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_is_for_what_the_kernels_are_for() {
        let probe = probe().unwrap().into_string().unwrap();
        let target = |image: &str| image.lines().take(3).map(str::to_owned).collect::<Vec<_>>();
        for image in [ELEMENTWISE, REDUCE, FINISH] {
            assert_eq!(target(&probe), target(image));
        }
        assert!(probe.contains(".visible .entry probe()"));
    }

    #[test]
    fn every_kernel_has_an_image_of_its_own_and_a_number() {
        for (number, kernel) in Kernel::all().enumerate() {
            assert_eq!(kernel.number(), number);
            let image = image_of(kernel).unwrap().into_string().unwrap();
            let entries: Vec<&str> = image.split(".visible .entry ").skip(1).collect();
            let [entry] = entries[..] else { panic!("{} entries", entries.len()) };
            assert_eq!(entry.split('(').next(), Some(kernel.source().0));
            assert!(image.starts_with(".version 8.0"));
            assert_eq!(entry.matches('{').count(), entry.matches('}').count());
        }
    }
}
