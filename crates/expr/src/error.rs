//! Errors: what is wrong with an expression, and where.

use std::collections::TryReserveError;
use std::fmt;

/// The widest line that an error shows, in characters.
const WIDTH: usize = 76;

/// The characters before the caret in a line that is too wide.
const BEFORE: usize = 50;

/// A mistake at a place in the text, in bytes, or a lack of memory.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) place: usize,
    lacks_memory: bool,
}

/// The result of reading a part of an expression.
pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Returns the error with a message at a place.
#[cold]
#[inline(never)]
pub(crate) fn fault<T>(place: usize, message: impl Into<String>) -> Result<T> {
    Err(Fault { message: message.into(), place, lacks_memory: false })
}

impl Fault {
    pub(crate) fn at(self, place: usize) -> Fault {
        Fault { place, ..self }
    }
}

impl From<TryReserveError> for Fault {
    fn from(_: TryReserveError) -> Self {
        Fault { message: String::new(), place: 0, lacks_memory: true }
    }
}

/// An error in an expression or its inputs, or a lack of memory. The text has the message, the line, and a caret under
/// the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: String,
    line: String,
    column: usize,
    lacks_memory: bool,
}

impl From<TryReserveError> for Error {
    fn from(_: TryReserveError) -> Self {
        Error { lacks_memory: true, ..Error::of_inputs("") }
    }
}

impl Error {
    /// An error of the text. A wide line is shortened around the place.
    pub(crate) fn in_text(text: &str, Fault { message, place, lacks_memory }: Fault) -> Error {
        if lacks_memory {
            return Error { lacks_memory, ..Error::of_inputs("") };
        }
        let start = text[..place].rfind('\n').map_or(0, |newline| newline + 1);
        let column = text[start..place].chars().count();
        let line = || text[start..].chars().take_while(|&c| c != '\n');
        let first = if line().nth(WIDTH).is_none() { 0 } else { column.saturating_sub(BEFORE) };
        let (before, after) = (first > 0, line().nth(first + WIDTH).is_some());
        let mut shown = String::from(if before { "..." } else { "" });
        shown.extend(line().skip(first).take(WIDTH).map(|c| if c.is_control() { ' ' } else { c }));
        shown.push_str(if after { "..." } else { "" });
        let column = column - first + if before { 3 } else { 0 };
        Error { message, line: shown, column, lacks_memory }
    }

    /// An error of the inputs, or of the text as a whole.
    pub(crate) fn of_inputs(message: impl Into<String>) -> Error {
        Error { message: message.into(), line: String::new(), column: 0, lacks_memory: false }
    }

    /// True if there was too little memory to read the text, which may be right.
    #[must_use]
    pub fn lacks_memory(&self) -> bool {
        self.lacks_memory
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.lacks_memory { "memory is too short" } else { &self.message })?;
        if self.line.is_empty() {
            return Ok(());
        }
        write!(f, "\n{}\n{:column$}^", self.line, "", column = self.column)
    }
}

impl std::error::Error for Error {}

/// Quotes a part of the text, shortened.
pub(crate) fn quoted(part: &str) -> String {
    const LONGEST: usize = 40;
    match part.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("'{}...'", &part[..end]),
        None => format!("'{part}'"),
    }
}
