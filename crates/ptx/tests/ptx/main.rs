//! The kernels of programs, in the emulator, against an oracle: every bit.

mod axes;
mod by_key;
mod family;
mod folds;
mod large;
mod launches;
mod modules;
mod operations;
mod placeholders;
mod random;
mod reductions;
mod run;
mod strided;
mod values;
