//! The reductions.

use crate::Value::{self, Bool, F32, F64, I64};
use gpuvec_exact::{Dot, Float, Kind, State, Sum, mean, quotient, root};
use gpuvec_expr::{Reduction, Type};

/// The reduction of the results of all elements. `None` if it has no value for no elements.
#[must_use]
pub fn reduced(reduction: Reduction, ty: Type, results: &[Vec<Value>]) -> Option<Value> {
    let first: Vec<Value> = results.iter().map(|values| values[0]).collect();
    let last: Vec<Value> = results.iter().map(|values| values[values.len() - 1]).collect();
    let trues = first.iter().filter(|value| matches!(value, Bool(true))).count();
    Some(match (reduction, ty) {
        (Reduction::Any, _) => Bool(trues > 0),
        (Reduction::All, _) => Bool(trues == first.len()),
        (Reduction::Count, _) => I64(trues as i64),
        (Reduction::Sum, Type::I32 | Type::I64) => {
            I64(first.iter().map(|&x| x.integer()).sum::<i128>() as i64)
        }
        (Reduction::Dot, Type::I32 | Type::I64) => {
            let products = first.iter().zip(&last).map(|(&x, &y)| x.integer() * y.integer());
            I64(products.map(|product| i128::from(product as i64)).sum::<i128>() as i64)
        }
        (Reduction::Prod, _) => {
            I64(first.iter().fold(1, |product: i64, &x| product.wrapping_mul(x.integer() as i64)))
        }
        (Reduction::Sum, Type::F32) => F32(sum::<Sum<f32>>(&f32s(&first), &f32s(&last)).value()),
        (Reduction::Dot, Type::F32) => F32(sum::<Dot<f32>>(&f32s(&first), &f32s(&last)).value()),
        (Reduction::Sum, _) => F64(sum::<Sum<f64>>(&f64s(&first), &f64s(&last)).value()),
        (Reduction::Dot, _) => F64(sum::<Dot<f64>>(&f64s(&first), &f64s(&last)).value()),
        (Reduction::Mean, Type::F32) => F32(mean(&sum::<Sum<f32>>(&f32s(&first), &f32s(&first)))),
        (Reduction::Norm, Type::F32) => F32(root(&sum::<Dot<f32>>(&f32s(&first), &f32s(&first)))),
        (Reduction::Mean, _) => {
            let halves: Vec<f64> = results.iter().flat_map(|values| f64s(values)).collect();
            F64(quotient(&sum::<Sum<f64>>(&halves, &halves), first.len() as u64))
        }
        (Reduction::Norm, _) => {
            // (x + y)·(x + y), of halves or of x alone.
            let pairs = |values: &Vec<Value>| {
                let halves = f64s(values);
                halves.iter().flat_map(|x| halves.iter().map(|y| (*x, *y))).collect::<Vec<_>>()
            };
            let (a, b): (Vec<f64>, Vec<f64>) = results.iter().flat_map(pairs).unzip();
            F64(root(&sum::<Dot<f64>>(&a, &b)))
        }
        (Reduction::Var | Reduction::Std, _) => {
            unreachable!("tests of their own compare them with rationals")
        }
        (Reduction::Min | Reduction::ArgMin, _) => {
            let index = winner(&first, Iterator::min)?;
            if reduction == Reduction::ArgMin {
                I64(index as i64)
            } else {
                zero(first, index, true)
            }
        }
        (Reduction::Max | Reduction::ArgMax, _) => {
            let index = winner(&first, Iterator::max)?;
            if reduction == Reduction::ArgMax {
                I64(index as i64)
            } else {
                zero(first, index, false)
            }
        }
    })
}

fn sum<K: Kind<Element: Float>>(a: &[K::Element], b: &[K::Element]) -> State<K> {
    let mut state = State::ZERO;
    a.iter().zip(b).for_each(|(&x, &y)| state.deposit(K::term_of(x, y)));
    state
}

fn f32s(values: &[Value]) -> Vec<f32> {
    values.iter().map(|value| if let F32(x) = value { *x } else { panic!("{value:?}") }).collect()
}

/// Floats of either type.
fn f64s(values: &[Value]) -> Vec<f64> {
    let float = |value: &Value| match value {
        F32(x) => (*x).into(),
        F64(x) => *x,
        _ => panic!("{value:?} is not a float"),
    };
    values.iter().map(float).collect()
}

/// The index of the first NaN or, without one, of the first best value.
fn winner(
    values: &[Value], best: impl Fn(std::vec::IntoIter<i128>) -> Option<i128>,
) -> Option<usize> {
    // Floats as integers in their order; zeros are equal.
    let key = |value: &Value| match value {
        F32(x) if x.is_nan() => None,
        F64(x) if x.is_nan() => None,
        F32(x) => Some(ordered(f64::from(*x))),
        F64(x) => Some(ordered(*x)),
        value => Some(value.integer()),
    };
    let keys: Vec<Option<i128>> = values.iter().map(key).collect();
    if let Some(nan) = keys.iter().position(Option::is_none) {
        return Some(nan);
    }
    let keys: Vec<i128> = keys.into_iter().flatten().collect();
    let best = best(keys.clone().into_iter())?;
    keys.iter().position(|&x| x == best)
}

fn ordered(x: f64) -> i128 {
    let magnitude = i128::from(x.abs().to_bits());
    if x < 0.0 { -magnitude } else { magnitude }
}

/// The value at `index`. A zero has the sign that wins among all zeros.
fn zero(values: Vec<Value>, index: usize, is_min: bool) -> Value {
    let has = |negative: bool| {
        values.iter().any(|value| match value {
            F32(x) => *x == 0.0 && x.is_sign_negative() == negative,
            F64(x) => *x == 0.0 && x.is_sign_negative() == negative,
            _ => false,
        })
    };
    match values[index] {
        F32(0.0) => F32(if has(is_min) == is_min { -0.0 } else { 0.0 }),
        F64(0.0) => F64(if has(is_min) == is_min { -0.0 } else { 0.0 }),
        value => value,
    }
}
