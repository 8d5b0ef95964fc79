//! Links the library so that it always loads, writes its header, and packs the kernels' images.

use std::path::Path;
use std::{env, fs};

fn main() {
    link();
    write_header();
    pack_images();
}

/// Rejects undefined symbols at link time (`defs`), and keeps the library loaded, since its fork
/// handlers and threads must stay (`nodelete`).
fn link() {
    for argument in ["-z,defs", "-z,nodelete", "-soname,libgpuvec.so"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    }
}

/// Generates `include/gpuvec.h`, which is committed, from `src/abi`. Writes it only if it changed.
fn write_header() {
    for input in ["src", "cbindgen.toml", "include/preamble.h", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's folder");
    let root = Path::new(&root);
    let mut config = cbindgen::Config::from_root_or_default(root);
    let preamble = root.join("include/preamble.h");
    config.header = Some(fs::read_to_string(preamble).expect("include/preamble.h is readable"));
    config.after_includes = Some(version_macros());
    cbindgen::Builder::new()
        .with_crate(root)
        .with_config(config)
        .generate()
        .expect("src/abi is readable as a C interface")
        .write_to_file(root.join("include/gpuvec.h"));
}

fn version_macros() -> String {
    let part =
        |name| env::var(format!("CARGO_PKG_VERSION_{name}")).expect("cargo sets the version");
    format!(
        "\n/* == Constants and types == */\n\n\
         /* The version of this header; the library's is gpuvec_version(). */\n\
         #define GPUVEC_VERSION_MAJOR {}\n#define GPUVEC_VERSION_MINOR {}\n\
         #define GPUVEC_VERSION_PATCH {}",
        part("MAJOR"),
        part("MINOR"),
        part("PATCH")
    )
}

/// Packs the images of kernels/ptx, and writes the table that src/cuda/kernels.rs includes: `IMAGES`, by
/// name, with the place of each in `UNPACKED_BYTES` bytes that `PACKED` is deflated from. Those bytes
/// have the images in the order of their sizes, so that similar ones are within deflate's window.
fn pack_images() {
    const BEST: u8 = 10;
    println!("cargo::rerun-if-changed=kernels/ptx");
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's folder");
    let out = env::var("OUT_DIR").expect("cargo names the folder for what is built");
    let folder = Path::new(&root).join("kernels/ptx");
    let entries = fs::read_dir(&folder).expect("kernels/ptx is readable");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.sort_by_cached_key(|path| (path.metadata().map_or(0, |file| file.len()), path.clone()));
    let (mut images, mut rows) = (Vec::new(), Vec::new());
    for path in &paths {
        let name = path.file_stem().expect("an image has a name").display().to_string();
        rows.push(format!("    Image {{ name: c{name:?}, start: {} }},\n", images.len()));
        images.extend(fs::read(path).expect("an image is readable"));
        images.push(0);
    }
    rows.sort();
    let packed = miniz_oxide::deflate::compress_to_vec(&images, BEST);
    let table = format!(
        "static PACKED: &[u8] = include_bytes!(\"images.deflate\");\n\
         const UNPACKED_BYTES: usize = {};\n\
         static IMAGES: [Image; {}] = [\n{}];\n",
        images.len(),
        paths.len(),
        rows.concat()
    );
    let write = |name, text: &[u8]| fs::write(Path::new(&out).join(name), text);
    write("images.deflate", &packed).expect("the folder is writable");
    write("images.rs", table.as_bytes()).expect("the folder is writable");
}
