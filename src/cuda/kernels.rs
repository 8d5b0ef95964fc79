//! The kernels: PTX inside the library, which each device's driver compiles for itself.

use super::driver::{self, Code, Driver, OfCall, cuModuleLoadData};
use crate::error::{Error, kept};
use crate::op::{Op, Shape};
use crate::sum::TILE;
use cust::error::CudaError;
use cust::function::Function;
use cust::launch;
use cust::module::Module;
use cust::stream::Stream;
use std::ffi::CStr;

/// The images, as `kernels/build.py` made them from the `.cu` files beside them.
const ELEMENTWISE: &CStr = image(concat!(include_str!("../../kernels/elementwise.ptx"), "\0"));
const REDUCE: &CStr = image(concat!(include_str!("../../kernels/reduce.ptx"), "\0"));

const fn image(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the PTX has a NUL inside"),
    }
}

/// The oldest driver that takes the images' PTX ISA 8.0 supports this CUDA version.
const OLDEST_CUDA: i32 = 12_000;

const BLOCK_THREADS: u32 = 256;
const WARP_THREADS: u32 = 32;
/// Enough blocks to fill a multiprocessor's 2,048 threads.
const BLOCKS_PER_MULTIPROCESSOR: u32 = 8;
/// What a thread of an elementwise kernel reads of each array at once.
const PACK_BYTES: usize = 16;

/// All kernels, loaded into one device's context.
pub(crate) struct Kernels {
    functions: Vec<Function<'static>>,
    ordinal: usize,
    most_blocks: u32,
}

impl Kernels {
    /// Loads them into the current context, of device `ordinal`.
    pub(crate) fn load(
        driver: Driver,
        ordinal: usize,
        multiprocessors: u32,
    ) -> Result<Self, Error> {
        let elementwise = load_module(driver, ordinal, ELEMENTWISE)?;
        let reduce = load_module(driver, ordinal, REDUCE)?;
        let functions = Op::ALL
            .iter()
            .map(|op| match op.shape() {
                Shape::Elementwise => elementwise.get_function(op.kernel()),
                Shape::Reduction => reduce.get_function(op.kernel()),
            })
            .collect::<Result<_, _>>()
            .of("cuModuleGetFunction", ordinal)?;
        let most_blocks = multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
        Ok(Kernels { functions, ordinal, most_blocks })
    }

    /// Queues the kernel of `op` over `n` elements: from `a` and `b` into `out`, which for a
    /// reduction takes one f64 for each tile. Addresses are the device's.
    pub(crate) fn launch(
        &self,
        op: Op,
        stream: &Stream,
        [a, b, out]: [u64; 3],
        n: usize,
    ) -> Result<(), Error> {
        let function = &self.functions[op as usize];
        let blocks = self.blocks(op, n);
        let n = n as u64;
        // SAFETY: the kernel's parameters are three addresses and a 64-bit count, as its row in
        // kernels/*.cu has them. The pipeline answers for the addresses and for how long they last.
        unsafe { launch!(function<<<blocks, BLOCK_THREADS, 0, stream>>>(a, b, out, n)) }
            .of("cuLaunchKernel", self.ordinal)
    }

    fn blocks(&self, op: Op, n: usize) -> u32 {
        let threads = match op.shape() {
            Shape::Elementwise => (n * op.element_bytes()).div_ceil(PACK_BYTES),
            Shape::Reduction => n.div_ceil(TILE) * WARP_THREADS as usize,
        };
        let blocks = threads.div_ceil(BLOCK_THREADS as usize);
        u32::try_from(blocks).map_or(self.most_blocks, |blocks| blocks.min(self.most_blocks))
    }
}

fn load_module(
    driver: Driver,
    ordinal: usize,
    image: &'static CStr,
) -> Result<&'static Module, Error> {
    Module::from_ptx_cstr(image, &[])
        .map(|module| &*Box::leak(Box::new(module)))
        .map_err(|error| refusal(driver, ordinal, image, error))
}

/// Why the driver refuses an image. cust folds the codes that it does not know into one, the
/// likeliest here among them: so the driver is asked once more, for its own.
fn refusal(driver: Driver, ordinal: usize, image: &CStr, first: CudaError) -> Error {
    let version = driver::version(driver);
    if version < OLDEST_CUDA {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        let why = format!("the driver supports CUDA {major}.{minor}; 12.0 (driver 525) is needed");
        return Error::NoGpu { why: kept(why) };
    }
    let mut module = std::ptr::null_mut();
    // SAFETY: the image ends in NUL; the driver writes one handle into a local.
    let code = unsafe { cuModuleLoadData(&raw mut module, image.as_ptr().cast()) };
    let Code(number) = if code == Code::SUCCESS { Code(first as u32) } else { code };
    Error::Driver { call: "cuModuleLoadData", name: Code(number).name(), code: number, ordinal }
}
