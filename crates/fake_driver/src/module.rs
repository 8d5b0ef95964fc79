//! Modules, which are loaded and unloaded, and the functions in them.

use crate::faults::violate;
use crate::kernels::{self, Kernel};
use crate::{Code, INVALID_HANDLE, NOT_FOUND, lock, new_handle};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The kernels of each module that is loaded.
static MODULES: Mutex<BTreeMap<usize, Vec<(String, Kernel)>>> = Mutex::new(BTreeMap::new());

/// The functions of these modules that were handed out, each with its module.
static FUNCTIONS: Mutex<BTreeMap<usize, (usize, Kernel)>> = Mutex::new(BTreeMap::new());

/// Loads a text, and returns the handle of the module.
pub(crate) fn load(text: &str) -> Result<usize, Code> {
    let kernels = kernels::load(text)?;
    let handle = new_handle();
    lock(&MODULES).insert(handle, kernels);
    Ok(handle)
}

/// Unloads a module, whose functions are invalid from now on.
pub(crate) fn unload(handle: usize) -> Result<(), Code> {
    lock(&FUNCTIONS).retain(|_, (module, _)| *module != handle);
    let unloaded = lock(&MODULES).remove(&handle);
    if unloaded.is_none() {
        violate("a module was unloaded that is not loaded");
    }
    unloaded.map(|_| ()).ok_or(INVALID_HANDLE)
}

/// Returns the handle of a function.
pub(crate) fn function(module: usize, name: &str) -> Result<usize, Code> {
    let modules = lock(&MODULES);
    let kernels = modules.get(&module).ok_or(INVALID_HANDLE)?;
    let (_, kernel) = kernels.iter().find(|(known, _)| known == name).ok_or(NOT_FOUND)?;
    let handle = new_handle();
    lock(&FUNCTIONS).insert(handle, (module, kernel.clone()));
    Ok(handle)
}

/// Returns the kernel of a function. Notes a violation if its module is not loaded.
pub(crate) fn kernel(function: usize) -> Result<Kernel, Code> {
    let kernel = lock(&FUNCTIONS).get(&function).map(|(_, kernel)| kernel.clone());
    kernel.ok_or_else(|| {
        violate("a kernel was launched, or was still queued, after its module was unloaded");
        INVALID_HANDLE
    })
}

/// Counts the modules that are loaded.
pub(crate) fn count() -> usize {
    lock(&MODULES).len()
}
