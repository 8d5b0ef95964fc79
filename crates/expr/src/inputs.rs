//! Checks of the text and the inputs that a caller passes, before the text is read.

use crate::error::quoted;
use crate::lexer::is_word;
use crate::{Element, Form, Input, MAX_INPUTS, MAX_NAME, MAX_TEXT};

/// Python's keywords, which cannot be names, with advice on what to write instead.
pub(crate) const KEYWORDS: &[(&str, &str)] = &[
    ("True", ""),
    ("False", ""),
    ("and", "write & between bools, and parentheses around comparisons"),
    ("or", "write | between bools, and parentheses around comparisons"),
    ("not", "write ~(x) for the opposite of a bool"),
    ("if", "write where(condition, a, b)"),
    ("else", "write where(condition, a, b)"),
    ("in", "write (x == 1) | (x == 2) to compare with several values"),
    ("is", "write x == y to compare, and x != x for NaN"),
];

pub(crate) fn check_text(text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT {
        return Err(format!(
            "the expression has {} bytes, but at most {MAX_TEXT} are allowed: split it",
            text.len()
        ));
    }
    if text.trim_ascii().is_empty() {
        return Err("the expression is empty: write a formula of the inputs".into());
    }
    Ok(())
}

pub(crate) fn check_inputs(inputs: &[Input<'_>]) -> Result<(), String> {
    let count = inputs.len();
    if count > MAX_INPUTS {
        return Err(format!(
            "there are {count} inputs, but at most {MAX_INPUTS} are taken: split the expression"
        ));
    }
    for (i, Input { name, element, form }) in inputs.iter().enumerate() {
        let wrong = if name.len() > MAX_NAME {
            format!("is longer than {MAX_NAME} bytes: choose a shorter name")
        } else if !name.starts_with(|c: char| is_word(c) && !c.is_ascii_digit())
            || !name.chars().all(is_word)
        {
            "is not a name: use only ASCII letters, digits and _, and no digit first".into()
        } else if is_keyword(name) {
            "is a word of the language: choose another name".into()
        } else if *form == Form::Number && !matches!(element, Element::F64 | Element::I64) {
            format!(
                "is a number of type {}: declare it as f64 or i64, or as a scalar",
                element.name()
            )
        } else if inputs[..i].iter().any(|earlier| earlier.name == *name) {
            "names two inputs: choose another name for one of them".into()
        } else {
            continue;
        };
        return Err(format!("{} {wrong}", quoted(name)));
    }
    Ok(())
}

pub(crate) fn is_keyword(name: &str) -> bool {
    KEYWORDS.iter().any(|(keyword, _)| *keyword == name)
}
