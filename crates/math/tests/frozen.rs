//! The bits of functions of f64, which are not correctly rounded, never change: hashes of the results of a
//! million arguments and of the hard arguments of each. So are the bits of functions of two f32.

mod hard;
mod samples;

use gpuvec_math::{Scalar, double};
use hard::hard;
use samples::{Random, SPECIAL, special_pairs};

const COUNT: u32 = 1 << 20;

/// Hashes the bits of results. NaNs are all alike.
fn hash(results: impl Iterator<Item = f64>) -> u64 {
    results.fold(0, |hash, result| {
        let bits = if result.is_nan() { u64::MAX } else { result.to_bits() };
        Random(hash ^ bits).bits()
    })
}

fn numbers() -> impl Iterator<Item = f64> {
    let mut random = Random(5);
    SPECIAL.into_iter().chain((0..COUNT).map(move |_| random.f64()))
}

fn pairs() -> impl Iterator<Item = (f64, f64)> {
    let mut random = Random(6);
    special_pairs().chain((0..COUNT).map(move |_| (random.f64(), random.f64())))
}

/// The same pairs of f32, exactly.
fn pairs_of_f32() -> impl Iterator<Item = (f32, f32)> {
    let mut random = Random(7);
    let special = special_pairs().map(|(x, y)| (x as f32, y as f32));
    special.chain((0..COUNT).map(move |_| (random.f32(), random.f32())))
}

macro_rules! frozen {
    ($($name:ident $kind:ident $hash:literal)*) => {
        $(#[test]
        fn $name() {
            frozen!(@check $kind $name $hash);
        })*
    };
    (@check one $name:ident $hash:literal) => {
        let hard = hard::cases(hard!($name)).map(|([x], _)| x);
        assert_eq!(hash(numbers().chain(hard).map(|x| double::$name(&Scalar, x))), $hash);
    };
    (@check two $name:ident $hash:literal) => {
        let hard = hard::cases(hard!($name)).map(|([x, y], _)| (x, y));
        assert_eq!(hash(pairs().chain(hard).map(|(x, y)| double::$name(&Scalar, x, y))), $hash);
    };
}

frozen! {
    exp one 0x5e87_682d_ed78_7f47
    exp2 one 0x47da_f285_c194_7084
    expm1 one 0x4bcc_1af5_149c_2e62
    sinh one 0x3505_634b_cae9_7e46
    cosh one 0x49b5_988b_505b_5c9b
    tanh one 0x8e28_5ec3_bfec_9886
    log one 0x8209_8a0f_b45c_dcba
    log1p one 0xb34f_d2c0_e855_2d30
    log2 one 0xe0b6_89bb_a030_25c8
    log10 one 0x5e46_a66f_624f_166f
    sin one 0x8529_ab07_b00b_82f4
    cos one 0x01c2_9ff7_3b79_62ce
    tan one 0x662e_e07f_3a63_7cfc
    atan one 0x4b9b_affa_3603_1c98
    asin one 0x90ad_fa42_fe78_6cbc
    acos one 0x3c3c_e42d_47ce_7a28
    asinh one 0x642e_6ca7_c1c8_6cce
    acosh one 0xa3ae_8d35_ffb6_db24
    atanh one 0xcf8c_7a36_fdf5_c618
    cbrt one 0x6ca4_91f7_debc_d51c
    erf one 0x2a38_0426_71b7_4052
    atan2 two 0x3656_84de_c003_ce8c
    hypot two 0x1b00_9cc5_228f_dad7
    pow two 0x1322_cde9_0438_90e3
}

#[test]
fn of_f32() {
    let hashes = [gpuvec_math::pow, gpuvec_math::atan2, gpuvec_math::hypot]
        .map(|f| hash(pairs_of_f32().map(|(x, y)| f(&Scalar, x, y).into())));
    assert_eq!(hashes, [0x7d89_222f_fbde_8bd3, 0xdff3_b52f_ad19_61da, 0xc0a8_5c74_7bd7_18cd]);
}
