//! The instruction sets of x86-64, of which the loops of this backend have versions, and their vectors.

mod vector;
pub(crate) mod vector32;

pub(crate) use vector::{Avx2, Avx512, Sse2, Vector};

use std::is_x86_feature_detected;

/// A set of instructions that the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// SSE2, which every x86-64 processor has.
    Baseline(HasSse2),
    /// AVX2 and FMA.
    Avx2(HasAvx2),
    /// AVX-512 F, DQ, BW and VL, and AVX2 and FMA.
    Avx512(HasAvx512),
}

/// Proves that the processor has SSE2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HasSse2(());

/// Proves that the processor has AVX2 and FMA: only [`Version::avx2`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HasAvx2(());

/// Proves that the processor has AVX-512 F, DQ, BW and VL: only [`Version::avx512`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HasAvx512(());

impl Version {
    /// The version for every processor.
    pub(crate) const BASELINE: Version = Version::Baseline(HasSse2(()));

    /// The version with AVX2, if the processor has that.
    pub(crate) fn avx2() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        has.then_some(Version::Avx2(HasAvx2(())))
    }

    /// The version with AVX-512, if the processor has that.
    pub(crate) fn avx512() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        has.then_some(Version::Avx512(HasAvx512(())))
    }

    /// All that the processor has, the best one first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        [Self::avx512(), Self::avx2(), Some(Self::BASELINE)].into_iter().flatten()
    }

    /// The best that the processor has.
    pub(crate) fn detect() -> Self {
        Self::all().next().unwrap_or(Self::BASELINE)
    }

    /// The place of the version among all that there are.
    pub(crate) const fn index(self) -> usize {
        match self {
            Version::Baseline(_) => 0,
            Version::Avx2(_) => 1,
            Version::Avx512(_) => 2,
        }
    }

    /// The number of f64 in a vector.
    pub(crate) const fn lanes(self) -> usize {
        match self {
            Version::Baseline(_) => Sse2::LANES,
            Version::Avx2(_) => Avx2::LANES,
            Version::Avx512(_) => Avx512::LANES,
        }
    }
}
