//! The check that the library's build makes of every template.

use crate::run::{AXES_TEMPLATES, BY_KEY_TEMPLATES, TEMPLATES};
use gpuvec_ptx::check_template;
use std::panic::catch_unwind;

/// Placeholders that a template may have several times.
const OFTEN: [&str; 3] = ["MERGE", "IDENTITY", "WHOLE"];

fn all_templates() -> impl Iterator<Item = (&'static str, &'static str)> {
    TEMPLATES.into_iter().chain(AXES_TEMPLATES).chain(BY_KEY_TEMPLATES)
}

/// True if the check accepts a text.
fn is_accepted(template: &str) -> bool {
    catch_unwind(|| check_template(template)).is_ok()
}

#[test]
fn every_template_has_its_placeholders() {
    for (name, template) in all_templates() {
        assert!(is_accepted(template), "{name}");
    }
}

/// Each needed line is removed, gets another name, or is repeated: a placeholder, the entry, the number of blocks.
#[test]
fn a_changed_template_is_refused() {
    for (name, template) in all_templates() {
        let is_needed = |line: &&str| {
            let is_placeholder = line.starts_with(|first: char| first.is_ascii_uppercase());
            // Another one is in its place.
            let is_one_of_several = OFTEN.iter().any(|word| line.starts_with(word));
            is_placeholder && !is_one_of_several
                || line.starts_with(".visible .entry")
                || line.starts_with(".minnctapersm")
        };
        let lines: Vec<&str> = template.split_inclusive('\n').filter(is_needed).collect();
        assert!(lines.len() >= 4, "{name}");
        for line in lines {
            for with in [String::new(), format!("X{line}"), line.repeat(2)] {
                assert!(
                    !is_accepted(&template.replacen(line, &with, 1)),
                    "{name}: {line:?} as {with:?}"
                );
            }
        }
        for word in OFTEN {
            let without: String =
                template.split_inclusive('\n').filter(|line| !line.starts_with(word)).collect();
            assert_eq!(is_accepted(&without), without == template, "{name} without {word}");
        }
    }
}
