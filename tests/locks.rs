//! Everything in src and crates that can make a thread wait for another one.
//!
//! A forked child has one thread, and every lock as it was at the fork. It would wait for ever for one that
//! another thread of its parent held. Each lock is therefore listed here with the reason why no
//! child waits for it. Code that a child reaches uses a lock-free cell (`once_cell::race`,
//! `fork::PerProcess`), or a lock with the fork lock held (`fork::Shared`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Field, Ident, ItemEnum, ItemMod, ItemStatic, ItemStruct, ItemType, Macro};
use syn::{Meta, Type, UseRename};

/// The types that wait: std's, once_cell's, and the library's own.
const WAITING: &[&str] = &[
    "Barrier",
    "Condvar",
    "FallibleOnceCell",
    "LazyLock",
    "Mutex",
    "Once",
    "OnceCell",
    "OnceLock",
    "ReentrantLock",
    "RwLock",
    "mpsc",
];

/// If the parent uses the driver, a child fails before it reaches this lock.
const DRIVER: &str = "only behind this process's own driver";
/// No thread forks while another one is inside.
const FORK_LOCK: &str = "only with the fork lock held";
/// A child makes its own calls, with its own threads.
const CALL: &str = "of one call";
const POOL: &str = "of the pool, which a child makes for itself";

/// Every place with a type that waits, and the reason why a child never waits there.
const PLACES: &[(&str, &str)] = &[
    ("src/cuda/by_key.rs: Tables.made", CALL),
    ("src/cuda/device.rs: GPUS", DRIVER),
    ("src/cuda/device.rs: Gpu.device", DRIVER),
    ("src/cuda/driver.rs: Opening.driver", "a child makes its own opening, or fails"),
    ("src/cuda/fallible_once.rs: FallibleOnceCell.value", "as each FallibleOnceCell of this list"),
    ("src/cuda/device_cache.rs: BLOCKS", DRIVER),
    ("src/cuda/job.rs: Job.merging", CALL),
    ("src/cuda/kernels.rs: Kernels.copy", DRIVER),
    ("src/cuda/kernels.rs: Kernels.expressions", DRIVER),
    ("src/cuda/kernels.rs: Kernels.operations", DRIVER),
    ("src/cuda/kernels.rs: Place", DRIVER),
    ("src/cuda/modules.rs: Modules.retired", DRIVER),
    ("src/cuda/owned.rs: DeferredFrees.0", DRIVER),
    ("src/cuda/slot.rs: SlotPool.returned", DRIVER),
    ("src/cuda/slot.rs: SlotPool.state", DRIVER),
    ("src/cuda/stream.rs: Order.turn", DRIVER),
    ("src/cuda/stream.rs: Stream.scratch", DRIVER),
    ("src/objects/accumulator.rs: Accumulator.words", FORK_LOCK),
    ("src/pool/fork_join.rs: Job.panicked", CALL),
    ("src/pool/fork_join.rs: WorkerSlot.changed", POOL),
    ("src/pool/fork_join.rs: WorkerSlot.lock", POOL),
    ("src/process/fork.rs: LOCK", "the fork lock"),
    ("src/process/fork.rs: Shared.0", FORK_LOCK),
    ("src/run/gpus.rs: Parallel.outcome", CALL),
    ("src/run/reduce_axes.rs: ByKey.of_devices", CALL),
    ("src/run/reduce_axes.rs: ByKey.outside", CALL),
    ("src/run/reduce_axes.rs: ByKey.tables", CALL),
    ("src/run/reduce_axes.rs: ReduceAxes.merged", CALL),
    ("src/run/work.rs: Reducing.places", CALL),
    ("src/run/work.rs: ReducingSeveral.merged", CALL),
];

/// Files and folders that the library does not contain.
const NOT_LINKED: &[&str] =
    &["tests", "examples", "tests.rs", "build.rs", "emulator", "fake_driver", "oracle"];

/// The declarations of a file with a type that waits.
struct Waiting {
    file: String,
    owner: String,
    found: BTreeSet<String>,
}

impl Waiting {
    fn of(path: &Path) -> BTreeSet<String> {
        let text = fs::read_to_string(path).expect("a readable file");
        let file = path.display().to_string();
        let mut waiting = Waiting { file, owner: String::new(), found: BTreeSet::new() };
        waiting.visit_file(&syn::parse_file(&text).expect("Rust"));
        waiting.found
    }

    fn note(&mut self, name: &str) {
        self.found.insert(format!("{}: {name}", self.file));
    }

    fn look(&mut self, name: &str, ty: &Type) {
        if waits(ty) {
            self.note(name);
        }
    }
}

/// Returns whether a type contains one that waits.
fn waits(ty: &Type) -> bool {
    struct Names(bool);
    impl Visit<'_> for Names {
        fn visit_ident(&mut self, name: &Ident) {
            self.0 |= WAITING.iter().any(|waiting| name == waiting);
        }
    }
    let mut names = Names(false);
    names.visit_type(ty);
    names.0
}

fn is_test(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}

impl<'ast> Visit<'ast> for Waiting {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !module.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        self.look(&item.ident.to_string(), &item.ty);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.look(&item.ident.to_string(), &item.ty);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.owner = item.ident.to_string();
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.owner = item.ident.to_string();
        visit::visit_item_enum(self, item);
    }

    fn visit_field(&mut self, field: &'ast Field) {
        let name = field.ident.as_ref().map_or("0".to_owned(), Ident::to_string);
        self.look(&format!("{}.{name}", self.owner), &field.ty);
    }

    /// Another name would hide the type.
    fn visit_use_rename(&mut self, rename: &'ast UseRename) {
        if WAITING.iter().any(|waiting| rename.ident == waiting) {
            self.note(&rename.rename.to_string());
        }
    }

    /// The tokens of a macro are not parsed: they may declare anything. Thread-locals are constants, which
    /// need no memory.
    fn visit_macro(&mut self, item: &'ast Macro) {
        let name = item.path.segments.last().map_or(String::new(), |last| last.ident.to_string());
        let tokens = item.tokens.to_string();
        let mut words = tokens.split(|c: char| !c.is_alphanumeric() && c != '_');
        if words.any(|word| WAITING.contains(&word)) {
            self.note(&format!("{name}!"));
        }
        let declared = tokens.split_whitespace().filter(|word| *word == "static").count();
        if name == "thread_local" && tokens.matches("= const").count() < declared {
            self.note("thread_local!, not const");
        }
    }
}

/// Returns every file of Rust under a folder, except tests, what only they use, and examples.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the repository");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let is_left_out = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        NOT_LINKED.iter().any(|other| name == *other)
    };
    let mut found: Vec<PathBuf> = paths
        .filter(|path| !is_left_out(path))
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    found.sort();
    found
}

#[test]
fn no_lock_is_reached_by_a_forked_child() {
    let files = ["src", "crates"].iter().flat_map(|folder| files(Path::new(folder)));
    let found: BTreeSet<String> = files.flat_map(|path| Waiting::of(&path)).collect();
    let listed: BTreeSet<String> = PLACES.iter().map(|(place, _)| (*place).to_owned()).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(new.is_empty(), "a child may wait here for a thread that it does not have: {new:#?}");
    assert!(gone.is_empty(), "these are no more: {gone:#?}");
}
