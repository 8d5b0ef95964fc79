//! Exact sums against two oracles: every word of the states, and every bit of the results.

mod bins;
mod moments;
mod oracle;
mod rounding;
mod state;
mod window;
mod wire;

/// Runs a test that is generic over the kind, for each kind.
macro_rules! for_each_kind {
    ($($(#[$attribute:meta])* $name:ident;)+) => {
        $(#[test]
        $(#[$attribute])*
        fn $name() {
            generic::$name::<gpuvec_exact::Sum<f32>>();
            generic::$name::<gpuvec_exact::Dot<f32>>();
            generic::$name::<gpuvec_exact::Sum<f64>>();
            generic::$name::<gpuvec_exact::Dot<f64>>();
        })+
    };
}
use for_each_kind;
