//! Tests: promises of each part, and all together on simulated machines.

mod learning;
mod machines;
mod simulation;
