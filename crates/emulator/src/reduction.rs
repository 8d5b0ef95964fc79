//! Stands in for the compiled part of a reduction, with the library's own accumulators.

use bytemuck::bytes_of;
use gpuvec_exact::{Dot, Kind, State, Sum};
use gpuvec_ops::{
    Accumulator, All, Any, ArgMax, ArgMin, Element, Indexed, Max, Mean, Min, Norm, WrappingProduct,
    WrappingSum,
};
use gpuvec_oracle::half;

/// The bytes of a state and of its result.
pub(crate) struct Reduced {
    pub(crate) state: Vec<u8>,
    pub(crate) result: Vec<u8>,
}

/// Reduces elements, or threads' states. The first element has the index `first`. A result may be stored as another
/// type than its own.
pub(crate) fn reduce(
    reduction: &str, ty: &str, elements: &[[u64; 2]], first: u64,
) -> Result<Reduced, String> {
    let (ty, stored) = ty.split_once(" as ").unwrap_or((ty, ty));
    let Reduced { state, result } = of_type(reduction, ty, elements, first)?;
    let result = match (stored, &result[..]) {
        ("f16", &[a, b, c, d]) => {
            half::f16_bits(f32::from_le_bytes([a, b, c, d])).to_le_bytes().to_vec()
        }
        ("bf16", &[a, b, c, d]) => {
            half::bf16_bits(f32::from_le_bytes([a, b, c, d])).to_le_bytes().to_vec()
        }
        ("u64", &[.., last]) => [&result[..7], &[last ^ 0x80]].concat(),
        _ => result,
    };
    Ok(Reduced { state, result })
}

fn of_type(
    reduction: &str, ty: &str, elements: &[[u64; 2]], first: u64,
) -> Result<Reduced, String> {
    let one = |value: u64| value.cast_signed();
    Ok(match (reduction, ty) {
        ("sum", "f32") => exact::<Sum<f32>, Sum<f32>>(elements),
        ("sum", "f64") => exact::<Sum<f64>, Sum<f64>>(elements),
        ("mean", "f32") => exact::<Sum<f32>, Mean<f32>>(elements),
        ("mean", "f64") => exact::<Sum<f64>, Mean<f64>>(elements),
        ("dot", "f32") => exact::<Dot<f32>, Dot<f32>>(elements),
        ("dot", "f64") => exact::<Dot<f64>, Dot<f64>>(elements),
        ("norm", "f32") => exact::<Dot<f32>, Norm<f32>>(&squares(elements)),
        ("norm", "f64") => exact::<Dot<f64>, Norm<f64>>(&squares(elements)),
        ("sum" | "dot" | "count", _) => value::<WrappingSum>(elements, one),
        ("prod", _) => value::<WrappingProduct>(elements, one),
        ("any", _) => counted::<Any>(elements),
        ("all", _) => counted::<All>(elements),
        ("min", "f32") => value::<Min<f32>>(elements, f32_of_key),
        ("max", "f32") => value::<Max<f32>>(elements, f32_of_key),
        ("min", "f64") => value::<Min<f64>>(elements, f64_of_key),
        ("max", "f64") => value::<Max<f64>>(elements, f64_of_key),
        ("min", "i32") => value::<Min<i32>>(elements, |bits| bits as i32),
        ("max", "i32") => value::<Max<i32>>(elements, |bits| bits as i32),
        ("min", "i64") => value::<Min<i64>>(elements, one),
        ("max", "i64") => value::<Max<i64>>(elements, one),
        ("argmin", "f32") => {
            indexed::<ArgMin<f32>, f32>(elements, first, |bits| f64::from_bits(bits) as f32)
        }
        ("argmax", "f32") => {
            indexed::<ArgMax<f32>, f32>(elements, first, |bits| f64::from_bits(bits) as f32)
        }
        ("argmin", "f64") => indexed::<ArgMin<f64>, f64>(elements, first, f64::from_bits),
        ("argmax", "f64") => indexed::<ArgMax<f64>, f64>(elements, first, f64::from_bits),
        ("argmin", "i32") => indexed::<ArgMin<i32>, i32>(elements, first, |bits| bits as i32),
        ("argmax", "i32") => indexed::<ArgMax<i32>, i32>(elements, first, |bits| bits as i32),
        ("argmin", "i64") => indexed::<ArgMin<i64>, i64>(elements, first, one),
        ("argmax", "i64") => indexed::<ArgMax<i64>, i64>(elements, first, one),
        _ => return Err(format!("no reduction {reduction} of {ty}")),
    })
}

/// The float of a key (crates/ptx/src/fold.rs): an integer in the order of floats, or for a NaN the least or
/// the greatest of all.
fn f32_of_key(key: u64) -> f32 {
    let key = key.cast_signed();
    i32::try_from(key).map_or(f32::NAN, |key| {
        f32::from_bits(if key < 0 { !key.cast_unsigned() | 1 << 31 } else { key.cast_unsigned() })
    })
}

fn f64_of_key(key: u64) -> f64 {
    match key.cast_signed() {
        i64::MIN | i64::MAX => f64::NAN,
        negative if negative < 0 => f64::from_bits(!key | 1 << 63),
        _ => f64::from_bits(key),
    }
}

/// The low bytes of a result.
fn bytes<T: Element>(result: T) -> Vec<u8> {
    result.bits().to_le_bytes()[..size_of::<T>()].to_vec()
}

/// Both factors of squares.
fn squares(elements: &[[u64; 2]]) -> Vec<[u64; 2]> {
    elements.iter().map(|&[x, _]| [x, x]).collect()
}

fn exact<K: Kind<Element: Element>, A: Accumulator<State = State<K>>>(
    elements: &[[u64; 2]],
) -> Reduced {
    let mut state = State::<K>::ZERO;
    for &[x, y] in elements {
        state.deposit(K::term_of(Element::from_bits(x), Element::from_bits(y)));
    }
    let words = state.words().as_ref().iter();
    Reduced {
        state: words.flat_map(|word| word.to_le_bytes()).collect(),
        result: bytes(A::finish(&state)),
    }
}

fn merged<A: Accumulator>(states: &[[u64; 2]], of: impl Fn(u64, u64) -> A::State) -> A::State {
    let mut state = A::IDENTITY;
    for &[value, index] in states {
        A::merge(&mut state, &of(value, index));
    }
    state
}

/// A fold whose state is its result, before NaNs are made one.
fn value<A: Accumulator<State = <A as Accumulator>::Result>>(
    elements: &[[u64; 2]], of: impl Fn(u64) -> A::State,
) -> Reduced {
    let state = merged::<A>(elements, |bits, _| of(bits));
    let result = bytes(A::finish(&state));
    Reduced { state: result.clone(), result }
}

fn counted<A: Accumulator<State = i64>>(elements: &[[u64; 2]]) -> Reduced {
    let state = merged::<A>(elements, |bits, _| bits.cast_signed());
    Reduced { state: bytes_of(&state).to_vec(), result: bytes(A::finish(&state)) }
}

fn indexed<A: Accumulator<State = Indexed<T>>, T: Element>(
    elements: &[[u64; 2]], first: u64, of: impl Fn(u64) -> T,
) -> Reduced {
    let index = |i: u64| first.wrapping_add(i).cast_signed();
    let state = merged::<A>(elements, |bits, i| Indexed { value: of(bits), index: index(i) });
    let words = [state.value.canonical().bits(), state.index.cast_unsigned()];
    Reduced { state: bytes_of(&words).to_vec(), result: bytes(A::finish(&state)) }
}
