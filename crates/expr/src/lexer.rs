//! Tokens of an expression.

use crate::error::{Result, fault, quoted};

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'t> {
    /// The name of an input or a function.
    Name(&'t str),
    /// A literal without a point or an exponent.
    Integer(&'t str),
    /// A literal with one of them.
    Float(&'t str),
    /// An operator or a delimiter.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

impl Token<'_> {
    /// The token as errors show it.
    pub(crate) fn quoted(self) -> String {
        match self {
            Token::Name(text) | Token::Integer(text) | Token::Float(text) => quoted(text),
            Token::Symbol(text) => quoted(text),
            Token::End => "the end".into(),
        }
    }
}

/// The symbols of the language.
const SYMBOLS: &[&str] = &[
    "**", "//", "<=", ">=", "==", "!=", "<<", ">>", "+", "-", "*", "/", "%", "<", ">", "&", "|",
    "^", "~", "(", ")", ",", ";",
];

/// Symbols of other languages, with advice on what to write instead.
const FOREIGN: &[(&str, &str)] = &[
    ("&&", "write & between bools, and parentheses around comparisons"),
    ("||", "write | between bools, and parentheses around comparisons"),
    ("=", "write == to compare"),
    ("!", "write ~(x) for the opposite of a bool"),
    ("?", "write where(condition, a, b)"),
    ("@", "write dot(a, b) for arrays of one dimension"),
    (".", "write sqrt, not np.sqrt"),
    ("[", "pass the part of the array that you need"),
];

/// The longest symbol at the start of a text. If the language does not have it, also the advice on what to write
/// instead.
fn symbol(text: &str) -> Option<(&'static str, Option<&'static str>)> {
    let known = SYMBOLS.iter().map(|symbol| (*symbol, None));
    let foreign = FOREIGN.iter().map(|(symbol, hint)| (*symbol, Some(*hint)));
    let found = known.chain(foreign).filter(|(symbol, _)| text.starts_with(symbol));
    found.max_by_key(|(symbol, _)| symbol.len())
}

/// Splits a text into tokens, one at a time.
pub(crate) struct Lexer<'t> {
    text: &'t str,
    position: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) const fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, position: 0 }
    }

    /// The next token and its place. The end of the text is at the place after the last token.
    pub(crate) fn next(&mut self) -> Result<(Token<'t>, usize)> {
        let rest = self.skip_blanks();
        let place = if rest.is_empty() { self.text.trim_ascii_end().len() } else { self.position };
        let mut characters = rest.chars();
        let (token, length) = match (characters.next(), characters.next()) {
            (None, _) => (Token::End, 0),
            (Some('0'..='9'), _) | (Some('.'), Some('0'..='9')) => number(rest, place)?,
            (Some('a'..='z' | 'A'..='Z' | '_'), _) => {
                let length = run(rest, is_word);
                (Token::Name(&rest[..length]), length)
            }
            (Some(first), _) => match symbol(rest) {
                Some((symbol, None)) => (Token::Symbol(symbol), symbol.len()),
                Some((symbol, Some(hint))) => {
                    return fault(place, format!("'{symbol}' is not an operator here: {hint}"));
                }
                None => {
                    let shown = if first.is_control() {
                        first.escape_debug().to_string()
                    } else {
                        first.into()
                    };
                    return fault(
                        place,
                        format!(
                            "the character '{shown}' is not allowed: names have only ASCII letters, digits and _"
                        ),
                    );
                }
            },
        };
        self.position += length;
        Ok((token, place))
    }

    /// True if a character comes next.
    pub(crate) fn at(&mut self, character: char) -> bool {
        self.skip_blanks().starts_with(character)
    }

    /// Reads a keyword and its equals sign, if they come next. Returns true if it read them.
    pub(crate) fn keyword(&mut self, name: &str) -> bool {
        let rest = self.skip_blanks().strip_prefix(name).map(str::trim_ascii_start);
        let Some(value) = rest.and_then(|rest| rest.strip_prefix('=')) else { return false };
        if value.starts_with('=') {
            return false;
        }
        self.position = self.text.len() - value.len();
        true
    }

    fn skip_blanks(&mut self) -> &'t str {
        self.position += run(&self.text[self.position..], |c| c.is_ascii_whitespace());
        &self.text[self.position..]
    }
}

/// True for characters that a name may contain after its first character.
pub(crate) const fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The number of leading characters for which `wanted` is true. All of these must be ASCII.
fn run(text: &str, wanted: impl Fn(char) -> bool) -> usize {
    text.find(|c| !wanted(c)).unwrap_or(text.len())
}

/// The number at the start of the text.
fn number(text: &str, place: usize) -> Result<(Token<'_>, usize)> {
    let digits = |from: usize| from + run(&text[from..], |c| c.is_ascii_digit());
    let whole = digits(0);
    let mut end = whole;
    if text[end..].starts_with('.') {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let signed = end + 1 + usize::from(text[end + 1..].starts_with(['+', '-']));
        end = if digits(signed) > signed { digits(signed) } else { end };
    }
    let all = end + run(&text[end..], |c| is_word(c) || c == '.');
    let leading_zero = end == whole && whole > 1 && text.starts_with('0');
    if all > end || leading_zero {
        let shown = quoted(&text[..all]);
        return fault(
            place,
            format!("{shown} is not a number: write digits, as in 12, 0.5 or 1e-3"),
        );
    }
    let literal = &text[..end];
    Ok((if end == whole { Token::Integer(literal) } else { Token::Float(literal) }, end))
}
