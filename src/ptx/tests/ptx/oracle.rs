//! A program's result for one element, in Rust's scalar arithmetic.

use gpuvec_expr::{Element, Node, Op, Program, Source, Type};

/// A value, as bits in the low end.
pub(crate) type Bits = u64;

fn of_f32(x: f32) -> Bits {
    x.to_bits().into()
}

fn f32_of(bits: Bits) -> f32 {
    f32::from_bits(bits as u32)
}

/// The value of an input's element.
pub(crate) fn widened(element: Element, bits: Bits) -> Bits {
    match element {
        Element::Bool => (bits as u8 != 0).into(),
        Element::U8 => (bits as u8).into(),
        Element::I8 => (bits as i8 as i32 as u32).into(),
        Element::U16 => (bits as u16).into(),
        Element::I16 => (bits as i16 as i32 as u32).into(),
        Element::U32 | Element::I32 | Element::F32 => (bits as u32).into(),
        Element::I64 | Element::F64 => bits,
    }
}

/// The results of the element whose inputs are given, as they are stored.
pub(crate) fn evaluate(program: &Program, inputs: &[Bits]) -> Vec<Bits> {
    let elements: Vec<Element> = program.inputs().map(|input| input.element).collect();
    let mut values: Vec<Bits> = Vec::new();
    for node in program.nodes() {
        let of = |i: usize| values[usize::from(node.operands()[i])];
        let value = match node.source {
            Source::Constant(bits) => bits,
            Source::Input(i) => widened(elements[usize::from(i)], inputs[usize::from(i)]),
            Source::Op(op) => {
                let last = *node.operands().last().expect("operations have operands");
                let ty = program.nodes()[usize::from(last)].ty;
                let operands: Vec<Bits> = (0..node.operands().len()).map(of).collect();
                operation(op, node, ty, &operands)
            }
        };
        values.push(value);
    }
    let results = program.results().iter().map(|&id| usize::from(id));
    results.map(|id| canonical(program.nodes()[id].ty, values[id])).collect()
}

pub(crate) fn canonical(ty: Type, bits: Bits) -> Bits {
    match ty {
        Type::F32 if f32_of(bits).is_nan() => 0x7FC0_0000,
        Type::F64 if f64::from_bits(bits).is_nan() => 0x7FF8_0000_0000_0000,
        _ => bits,
    }
}

fn operation(op: Op, node: &Node, ty: Type, operands: &[Bits]) -> Bits {
    if op == Op::Where {
        return if operands[0] != 0 { operands[1] } else { operands[2] };
    }
    if op == Op::Cast {
        return cast(ty, node.ty, operands[0]);
    }
    match ty {
        Type::Bool => match op {
            Op::And => operands[0] & operands[1],
            Op::Or => operands[0] | operands[1],
            Op::Not => operands[0] ^ 1,
            _ => unreachable!("{op:?}"),
        },
        Type::I32 => {
            let wide: Vec<i64> = operands.iter().map(|&x| i64::from(x as i32)).collect();
            let result = integer(op, &wide);
            if node.ty == Type::Bool { result as u64 } else { (result as u32).into() }
        }
        Type::I64 => {
            let values: Vec<i64> = operands.iter().map(|&x| x as i64).collect();
            integer(op, &values) as u64
        }
        Type::F32 => {
            let x: Vec<f32> = operands.iter().map(|&x| f32_of(x)).collect();
            single(op, &x)
        }
        Type::F64 => {
            let x: Vec<f64> = operands.iter().map(|&x| f64::from_bits(x)).collect();
            double(op, &x)
        }
    }
}

fn cast(from: Type, to: Type, x: Bits) -> Bits {
    macro_rules! to {
        ($value:expr) => {
            match to {
                Type::Bool => ($value != Default::default()).into(),
                Type::I32 => ($value as i32 as u32).into(),
                Type::I64 => $value as i64 as u64,
                Type::F32 => of_f32($value as f32),
                Type::F64 => ($value as f64).to_bits(),
            }
        };
    }
    match from {
        Type::Bool => to!(x as i32),
        Type::I32 => to!(x as u32 as i32),
        Type::I64 => to!(x as i64),
        Type::F32 => to!(f32_of(x)),
        Type::F64 => to!(f64::from_bits(x)),
    }
}

fn integer(op: Op, x: &[i64]) -> i64 {
    let floored = |a: i64, b: i64| -> i64 {
        let (a, b) = (i128::from(a), i128::from(b));
        if b == 0 {
            return 0;
        }
        let quotient = a / b;
        let quotient = if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient };
        quotient as i64
    };
    match (op, x) {
        (Op::Neg, [a]) => a.wrapping_neg(),
        (Op::Add, [a, b]) => a.wrapping_add(*b),
        (Op::Sub, [a, b]) => a.wrapping_sub(*b),
        (Op::Mul, [a, b]) => a.wrapping_mul(*b),
        (Op::FloorDiv, [a, b]) => floored(*a, *b),
        (Op::Mod, [_, 0]) => 0,
        (Op::Mod, [a, b]) => a.wrapping_sub(floored(*a, *b).wrapping_mul(*b)),
        (Op::Less, [a, b]) => (a < b).into(),
        (Op::LessEqual, [a, b]) => (a <= b).into(),
        (Op::Equal, [a, b]) => (a == b).into(),
        (Op::NotEqual, [a, b]) => (a != b).into(),
        (Op::Abs, [a]) => a.wrapping_abs(),
        (Op::Sign, [a]) => a.signum(),
        (Op::Minimum, [a, b]) => *a.min(b),
        (Op::Maximum, [a, b]) => *a.max(b),
        _ => unreachable!("{op:?}"),
    }
}

macro_rules! floats {
    ($name:ident $ty:ident $of:expr, $function:ident) => {
        fn $name(op: Op, x: &[$ty]) -> Bits {
            let below = |a: $ty, b: $ty| a < b || (a == b && a.is_sign_negative());
            let nan = |a: &$ty, b: &$ty| a.is_nan() || b.is_nan();
            $of(match (op, x) {
                (Op::Less, [a, b]) => return (a < b).into(),
                (Op::LessEqual, [a, b]) => return (a <= b).into(),
                (Op::Equal, [a, b]) => return (a == b).into(),
                (Op::NotEqual, [a, b]) => return (a != b).into(),
                (Op::Neg, [a]) => -a,
                (Op::Add, [a, b]) => a + b,
                (Op::Sub, [a, b]) => a - b,
                (Op::Mul, [a, b]) => a * b,
                (Op::Div, [a, b]) => a / b,
                (Op::FloorDiv, [a, b]) => {
                    let q = (a / b).floor();
                    let rest = if b.is_infinite() { *a } else { (-q).mul_add(*b, *a) };
                    let rounded_up = rest != 0.0 && (rest < 0.0) != (*b < 0.0);
                    let exact = q.abs() < (1_u64 << $ty::MANTISSA_DIGITS) as $ty;
                    if exact && rounded_up { q - 1.0 } else { q }
                }
                (Op::Mod, [a, b]) => match a % b {
                    r if r == 0.0 => r.copysign(*b),
                    r if (r < 0.0) != (*b < 0.0) => r + b,
                    r => r,
                },
                (Op::Fma, [a, b, c]) => a.mul_add(*b, *c),
                (Op::Sqrt, [a]) => a.sqrt(),
                (Op::Abs, [a]) => a.abs(),
                (Op::Sign, [a]) if a.is_nan() => *a,
                (Op::Sign, [a]) if *a == 0.0 => 0.0,
                (Op::Sign, [a]) => a.signum(),
                (Op::Minimum | Op::Maximum, [a, b]) if nan(a, b) => $ty::NAN,
                (Op::Minimum, [a, b]) => {
                    if below(*a, *b) {
                        *a
                    } else {
                        *b
                    }
                }
                (Op::Maximum, [a, b]) => {
                    if below(*b, *a) || a == b && b.is_sign_negative() {
                        *a
                    } else {
                        *b
                    }
                }
                (Op::Floor, [a]) => a.floor(),
                (Op::Ceil, [a]) => a.ceil(),
                (Op::Trunc, [a]) => a.trunc(),
                (Op::Rint, [a]) => a.round_ties_even(),
                (Op::Copysign, [a, b]) => a.copysign(if b.is_nan() { 1.0 } else { *b }),
                (op, x) => $function(op, x),
            })
        }
    };
}

floats!(single f32 of_f32, single_function);
floats!(double f64 f64::to_bits, double_function);

fn single_function(op: Op, x: &[f32]) -> f32 {
    use core_math as c;
    match (op, x) {
        (Op::Cbrt, [x]) => c::cbrtf(*x),
        (Op::Exp, [x]) => c::expf(*x),
        (Op::Exp2, [x]) => c::exp2f(*x),
        (Op::Expm1, [x]) => c::expm1f(*x),
        (Op::Log, [x]) => c::logf(*x),
        (Op::Log2, [x]) => c::log2f(*x),
        (Op::Log10, [x]) => c::log10f(*x),
        (Op::Log1p, [x]) => c::log1pf(*x),
        (Op::Sin, [x]) => c::sinf(*x),
        (Op::Cos, [x]) => c::cosf(*x),
        (Op::Tan, [x]) => c::tanf(*x),
        (Op::Asin, [x]) => c::asinf(*x),
        (Op::Acos, [x]) => c::acosf(*x),
        (Op::Atan, [x]) => c::atanf(*x),
        (Op::Sinh, [x]) => c::sinhf(*x),
        (Op::Cosh, [x]) => c::coshf(*x),
        (Op::Tanh, [x]) => c::tanhf(*x),
        (Op::Erf, [x]) => c::erff(*x),
        _ => unreachable!("{op:?}"),
    }
}

fn double_function(op: Op, _: &[f64]) -> f64 {
    unreachable!("{op:?}")
}
