//! Links the library so that it always loads, writes its header, and lists the kernels' images.

use std::path::Path;
use std::{env, fs};

fn main() {
    link();
    write_header();
    list_images();
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

/// Writes the table of kernels/ptx that src/cuda/kernels.rs includes: `IMAGES`, by name.
fn list_images() {
    println!("cargo::rerun-if-changed=kernels/ptx");
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's folder");
    let out = env::var("OUT_DIR").expect("cargo names the folder for what is built");
    let folder = Path::new(&root).join("kernels/ptx");
    let entries = fs::read_dir(&folder).expect("kernels/ptx is readable");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.sort_by_key(|path| path.file_stem().map(std::ffi::OsStr::to_owned));
    let image = |path: &std::path::PathBuf| {
        let name = path.file_stem().expect("an image has a name").display().to_string();
        let ptx = fs::read_to_string(path).expect("an image is text");
        format!("    Image {{ name: {name:?}, ptx: c{ptx:?} }},\n")
    };
    let images: String = paths.iter().map(image).collect();
    let table = format!("static IMAGES: [Image; {}] = [\n{images}];\n", paths.len());
    fs::write(Path::new(&out).join("images.rs"), table).expect("the folder is writable");
}
