//! Runs PTX.
