//! The bits of functions that are not correctly rounded never change: hashes of the results of a
//! million arguments of each.

mod samples;

use gpuvec_math::{Scalar, double};
use samples::{Random, SPECIAL, special_pairs};

const COUNT: u32 = 1 << 20;

/// Hashes the bits of results, of which NaNs are all alike.
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
        assert_eq!(hash(numbers().map(|x| double::$name(&Scalar, x))), $hash);
    };
    (@check two $name:ident $hash:literal) => {
        assert_eq!(hash(pairs().map(|(x, y)| double::$name(&Scalar, x, y))), $hash);
    };
}

frozen! {
    exp one 0x2598_aec3_a432_6ec3
    exp2 one 0x40c7_c519_14f8_f28f
    expm1 one 0xb73d_82cf_73f2_3996
    sinh one 0x1e9f_a5ad_6a40_d5b8
    cosh one 0xd660_56aa_5a95_59b3
    tanh one 0x793f_fb95_365c_968f
    log one 0xabb0_9983_ac9f_8c13
    log1p one 0x56c2_ac05_04c4_33fc
    log2 one 0x1512_84e9_632f_994a
    log10 one 0x33ac_78f6_e704_1a5a
    sin one 0x56d3_3924_37bd_fee8
    cos one 0xd68a_f4fb_7a85_1f12
    tan one 0x8a5f_3d4f_8af9_55a1
    atan one 0x7430_8055_610e_d79d
    asin one 0xac1e_3f9c_dfdf_7233
    acos one 0xfa92_7766_4e1c_9185
    cbrt one 0xa281_cb91_2887_ec8e
    erf one 0xfea6_4361_7ae1_339f
    atan2 two 0x25bd_3839_2864_f749
    hypot two 0x218b_a87e_9e19_bd07
    pow two 0xa386_d15b_7e94_ccd5
}

#[test]
fn of_f32() {
    let hashes = [gpuvec_math::pow, gpuvec_math::atan2, gpuvec_math::hypot]
        .map(|f| hash(pairs_of_f32().map(|(x, y)| f(&Scalar, x, y).into())));
    assert_eq!(hashes, [0x7d89_222f_fbde_8bd3, 0xdff3_b52f_ad19_61da, 0xc0a8_5c74_7bd7_18cd]);
}
