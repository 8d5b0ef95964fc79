//! Compiles the pool's parallel runs alone, so that their tests with loom need no other crate.

#[cfg(all(test, loom))]
#[path = "../../../src/pool/fork_join.rs"]
mod fork_join;
