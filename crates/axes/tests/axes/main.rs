//! Axes of random calls against a model that enumerates elements; overlaps; every error.

mod blocks;
mod calls;
mod errors;
mod overlaps;
mod walk;
