//! Arguments on which the functions of f64 lose most, with the exact results (tools/hard_cases.py).

/// A function's arguments, each with the rest of the exact result: how much that is above the double
/// nearest to it, in units in the last place.
pub(crate) fn cases<const N: usize>(text: &str) -> impl Iterator<Item = ([f64; N], f64)> {
    text.lines().map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("a line has the arguments and the rest");
        let bits = |word| u64::from_str_radix(word, 16).expect("arguments are hexadecimal");
        let arguments = std::array::from_fn(|_| f64::from_bits(bits(word())));
        (arguments, word().parse().expect("the rest is a decimal number"))
    })
}

/// The lines of a function's file.
macro_rules! hard {
    ($name:ident) => {
        include_str!(concat!("hard/", stringify!($name), ".txt"))
    };
}
pub(crate) use hard;
