//! Exact sums: the dot product and the sum of f32 and f64 as integers, rounded once at the end.
//!
//! Every finite f32 or f64, and every product of two, is an integer times a fixed power of two. A [`State`] has the sum
//! of such terms as one long integer. So no bit is lost, and the order of the terms has no effect: chunks, threads and
//! devices add their states word by word, and only [`State::value`] rounds.
//!
//! Terms reach a state in two ways. [`State::deposit`] adds one term by integer arithmetic: correct for every input and
//! in every floating-point mode. [`accumulate`] adds blocks of ordinary terms by exact floating-point arithmetic, in
//! windows. It is the reference for vector code and kernels: their normalised states must have the same words.

#![forbid(unsafe_code)]

mod bins;
mod code;
mod digits;
mod float;
mod moments;
mod state;
mod window;
mod wire;

pub use bins::Bins;
pub use code::{Code, merge_words};
pub use digits::{normalise, round};
pub use float::{Float, Value};
pub use moments::{mean, quotient, root, standard_deviation, variance};
pub use state::{COUNTS, Dot, Kind, State, Sum};
pub use window::{Guards, LEVEL_BITS, Windowed, accumulate, power, round_units, round_window};
pub use wire::{MAX_STATES, WireError, kind_of};
