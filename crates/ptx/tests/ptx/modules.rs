//! The order of the crate's modules.

use std::fs;
use std::path::Path;

/// Each module uses only modules that lib.rs lists before it: none depend on each other in a circle.
#[test]
fn modules_use_earlier_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let text = |name: &str| fs::read_to_string(folder.join(format!("{name}.rs"))).unwrap();
    let root = text("lib");
    let module = |line: &'static str| line.strip_prefix("mod ")?.strip_suffix(';');
    let order: Vec<&str> = root.leak().lines().filter_map(module).collect();
    assert_eq!(order.len() + 1, fs::read_dir(&folder).unwrap().count(), "files of {order:?}");
    for (place, name) in order.iter().enumerate() {
        let text = text(name);
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for used in code.flat_map(|line| line.split("crate::").skip(1)) {
            let end = used.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(used.len());
            let used = &used[..end];
            let is_earlier = order[..place].contains(&used) || used == *name;
            assert!(is_earlier, "{name} uses {used}, which is not before it in lib.rs");
        }
    }
}
