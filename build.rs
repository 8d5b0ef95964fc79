//! Sets the library's link arguments, writes its header, and packs the kernels' images.

use lzma_rust2::{LzmaOptions, LzmaWriter};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::{env, fs};

#[path = "build/header.rs"]
mod header;
#[path = "build/operations.rs"]
mod operations;
#[path = "crates/ptx/src/placeholder.rs"]
#[allow(unreachable_pub, reason = "public in its crate")]
mod placeholder;

fn main() {
    let header = write_header();
    link(&header);
    pack_images();
}

/// Lets the linker reject undefined symbols (`defs`), and keeps the library loaded, since its fork handlers and threads
/// need it (`nodelete`). Programs load the library by its soname, which ends with the version of the binary interface.
/// A symbolic link with this name lets them run without `make install`.
fn link(header: &str) {
    let abi = header.lines().find_map(|line| line.strip_prefix("#define GPUVEC_ABI_VERSION "));
    let soname = format!("libgpuvec.so.{}", abi.expect("src/abi/library.rs has the version"));
    for argument in ["-z,defs", "-z,nodelete", &format!("-soname,{soname}")] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    }
    let out = env::var("OUT_DIR").expect("cargo names the folder for what is built");
    // target/release of target/release/build/gpuvec-.../out.
    let beside_library = Path::new(&out).ancestors().nth(3).expect("cargo's layout").join(soname);
    if beside_library.symlink_metadata().is_err() {
        symlink("libgpuvec.so", beside_library).expect("the folder is writable");
    }
}

/// Writes `include/gpuvec.h` and the lists of functions if they changed. They are committed. Returns the header.
fn write_header() -> String {
    for input in [
        "build",
        "src",
        "cbindgen.toml",
        "include/gpuvec.h.in",
        "Cargo.toml",
        "crates/ops/src/rows.rs",
    ] {
        println!("cargo::rerun-if-changed={input}");
    }
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's folder");
    let root = Path::new(&root);
    let (text, functions) = header::text(root);
    operations::write_lists(root, &functions);
    let header = root.join("include/gpuvec.h");
    if fs::read_to_string(&header).ok().as_ref() != Some(&text) {
        fs::write(header, &text).expect("include/gpuvec.h is writable");
    }
    text
}

/// The only image that is a whole kernel. The others are templates, into which crates/ptx inserts formulas.
const WHOLE_IMAGE: &str = "copy_bytes";

/// Packs the images of kernels/ptx, and writes the table that src/cuda/kernels.rs includes: `IMAGES`, sorted by name,
/// with the place of each image in the `UNPACKED_BYTES` bytes of `PACKED`.
fn pack_images() {
    println!("cargo::rerun-if-changed=kernels/ptx");
    println!("cargo::rerun-if-changed=crates/ptx/src/placeholder.rs");
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's folder");
    let out = env::var("OUT_DIR").expect("cargo names the folder for what is built");
    let folder = Path::new(&root).join("kernels/ptx");
    let entries = fs::read_dir(&folder).expect("kernels/ptx is readable");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.sort();
    let (mut images, mut rows) = (Vec::new(), Vec::new());
    for path in &paths {
        let name = path.file_stem().expect("an image has a name").display().to_string();
        rows.push(format!("    Image {{ name: c{name:?}, start: {} }},\n", images.len()));
        let image = fs::read_to_string(path).expect("an image is readable");
        if name != WHOLE_IMAGE {
            placeholder::check_template(&image);
        }
        images.extend(image.as_bytes());
        images.push(0);
    }
    let packed = pack(&images);
    let table = format!(
        "static PACKED: &[u8] = include_bytes!(\"images.lzma\");\n\
         const UNPACKED_BYTES: usize = {};\n\
         static IMAGES: [Image; {}] = [\n{}];\n",
        images.len(),
        paths.len(),
        rows.concat()
    );
    let write = |name, text: &[u8]| fs::write(Path::new(&out).join(name), text);
    write("images.lzma", &packed).expect("the folder is writable");
    write("images.rs", table.as_bytes()).expect("the folder is writable");
}

/// Packs bytes in the .lzma format.
fn pack(bytes: &[u8]) -> Vec<u8> {
    const BEST: u32 = 9;
    let mut options = LzmaOptions::with_preset(BEST);
    // Text does not consist of words of 4 bytes (`pb`). A larger dictionary than all texts would be of no use.
    (options.lc, options.pb, options.dict_size) = (2, 0, bytes.len() as u32);
    let mut packer = LzmaWriter::new_use_header(Vec::new(), &options, Some(bytes.len() as u64))
        .expect("the options are valid");
    packer.write_all(bytes).and_then(|()| packer.finish()).expect("memory takes what is written")
}
