//! The check that the library's build makes of every frame.

use crate::run::{AXES_FRAMES, FRAMES};
use gpuvec_ptx::check_frame;
use std::panic::catch_unwind;

/// Hooks that a frame may have several times.
const OFTEN: [&str; 3] = ["MERGE", "IDENTITY", "WHOLE"];

/// Says whether the check accepts a text.
fn is_accepted(frame: &str) -> bool {
    catch_unwind(|| check_frame(frame)).is_ok()
}

#[test]
fn every_frame_has_its_hooks() {
    for (name, frame) in FRAMES.into_iter().chain(AXES_FRAMES) {
        assert!(is_accepted(frame), "{name}");
    }
}

/// Without one of its hooks, the entry or the number of blocks; with one that has another name, or is there twice.
#[test]
fn a_changed_frame_is_refused() {
    for (name, frame) in FRAMES.into_iter().chain(AXES_FRAMES) {
        let is_needed = |line: &&str| {
            let is_hook = line.starts_with(|first: char| first.is_ascii_uppercase());
            // Another one is in its place.
            let is_one_of_several = OFTEN.iter().any(|word| line.starts_with(word));
            is_hook && !is_one_of_several
                || line.starts_with(".visible .entry")
                || line.starts_with(".minnctapersm")
        };
        let lines: Vec<&str> = frame.split_inclusive('\n').filter(is_needed).collect();
        assert!(lines.len() >= 4, "{name}");
        for line in lines {
            for with in [String::new(), format!("X{line}"), line.repeat(2)] {
                assert!(
                    !is_accepted(&frame.replacen(line, &with, 1)),
                    "{name}: {line:?} as {with:?}"
                );
            }
        }
        for word in OFTEN {
            let without: String =
                frame.split_inclusive('\n').filter(|line| !line.starts_with(word)).collect();
            assert_eq!(is_accepted(&without), without == frame, "{name} without {word}");
        }
    }
}
